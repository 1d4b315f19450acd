/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read lengths from text, CSV, NumPy and HDF5 files. */
#include "base/check.h"
#include "base/hash.h"
#include "harness.h"
#include "lengths/lengths.h"

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/** Open a file of the scratch folder. @param column  "" for none; "column:weights" names both */
static bool open_file(const char *name, const char *column, struct lengths *lengths, struct error *err)
{
    struct scenario_data data = {.length_scale = 1, .context = 4096, .long_documents = SCENARIO_CUT, .global_batch = 8};
    const char *weights = strchr(column, ':');
    snprintf(data.lengths, sizeof data.lengths, "%s", harness_path(name));
    snprintf(data.column, sizeof data.column, "%.*s", (int)strcspn(column, ":"), column);
    snprintf(data.weights, sizeof data.weights, "%s", weights != NULL ? weights + 1 : "");
    return lengths_open(&data, SLIMSIM_SOURCE_DIR, lengths, err);
}

/** Check that the file opens and holds just these lengths. */
static void expect(const char *name, const char *column, int64_t n, const int32_t *tokens)
{
    struct lengths lengths = {0};
    struct error err = {0};
    uint64_t hash = 0;
    CHECK_TRUE(open_file(name, column, &lengths, &err));
    CHECK_TEXT(err.text, "");
    CHECK_EQUAL(lengths.kind, LENGTHS_FILE);
    CHECK_EQUAL(lengths.n, n);
    for (int64_t i = 0; i < n && i < lengths.n; i++)
        CHECK_EQUAL(lengths.file_tokens[i], tokens[i]);
    CHECK_TRUE(hash_file(harness_path(name), &hash, &err) && hash == lengths.hash);
    lengths_close(&lengths);
}

/** Check that the file is refused with a message that holds its name and `part`. */
static void refuse(const char *name, const char *column, const char *part)
{
    struct lengths lengths = {0};
    struct error err = {0};
    CHECK_TRUE(!open_file(name, column, &lengths, &err));
    CHECK_EQUAL(err.status, ERROR_INVALID);
    CHECK_CONTAINS(err.text, harness_path(name));
    CHECK_CONTAINS(err.text, part);
    CHECK_TRUE(lengths.file_tokens == NULL);
}

static void write_bytes(const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(harness_path(name), "wb");
    CHECK(file != NULL && fwrite(bytes, 1, n, file) == n && fclose(file) == 0);
}

static void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

TEST(reader_text__takes_blanks_commas_and_line_ends)
{
    const int32_t tokens[] = {5, 17, 2147483647, 1, 12};
    write_text("a.txt", "5\t17,2147483647\r\n1, 12");
    expect("a.txt", "", 5, tokens);
    write_text("a", "\n\n 5 17 02147483647\n1\n12\n\n");
    expect("a", "", 5, tokens);
}

TEST(reader_text__names_wrong_words_with_line_and_column)
{
    const struct {
        const char *text, *part;
    } cases[] = {
        {"5 0 7", ":1:3: '0' is not allowed: a length is a whole number of tokens from 1 to 2147483647"},
        {"5\n6 -7", ":2:3: '-7'"},
        {"5\n\nnan\n", ":3:1: 'nan'"},
        {"1.5", ":1:1: '1.5'"},
        {"12,1.5e0", ":1:4: '1.5e0'"},
        {"2147483648", "'2147483648'"},
        {"99999999999999999999999999", "'99999999999999999999999999'"},
        {"4;5", "'4;5'"},
        {"inf", "'inf'"},
        {"7 \xff", "'?'"},
        {" \n,\n", "holds no length"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("wrong.txt", cases[i].text);
        refuse("wrong.txt", "", cases[i].part);
    }
    write_text("wrong.txt", "");
    refuse("wrong.txt", "", "is empty");
    write_text("wrong.txt", "1");
    refuse("wrong.txt", "length",
           "data.column 'length' is for .csv, .tsv, .json, .jsonl, .h5, .hdf5 and .idx files only");
    mkdir(harness_path("folder.txt"), 0777);
    refuse("folder.txt", "", "is not a regular file");
    refuse("missing.txt", "", "No such file");
}

TEST(reader_csv__finds_the_column)
{
    const int32_t tokens[] = {7, 8}, other[] = {1, 2};
    write_text("a.csv", "id, length ,name\r\n1, 7 ,x\r\n2,8,y\r\n\r\n");
    expect("a.csv", "", 2, tokens);
    expect("a.csv", "id", 2, other);
    write_text("b.CSV", "anything\n7\n8");
    expect("b.CSV", "", 2, tokens);
    write_text("a.csv", "\"x, y\",\"length\"\n\"1,\n2\",7\n,\"8\"\n");
    expect("a.csv", "", 2, tokens);
    write_text("a.csv", "tokens,x\n7,\n8,\n");
    expect("a.csv", "", 2, tokens);
}

TEST(reader_csv__refuses_wrong_files)
{
    const struct {
        const char *text, *column, *part;
    } cases[] = {
        {"a,b\n1,2\n", "", ":1: 2 columns hold numbers: 'a', 'b'; data.column names the one of lengths"},
        {"a,length\n1,2\n3,\n", "", ":1: 2 columns hold numbers: 'a', 'length'"},
        {"a,b\nx,y\n", "", ":1: no column holds numbers; data.column names the one of lengths: 'a', 'b'"},
        {"a,b,a\n1,2,3\n", "a", ":1: two columns are called 'a'"},
        {"tokens,tokens\n1,2\n", "", ":1: two columns are called 'tokens'"},
        {"a,b\n1,2\n", "c", ":1: there is no column 'c', the columns are: 'a', 'b'"},
        {"12\n13\n", "", ":1: the first line must hold the names of the columns, '12' is a number"},
        {"a,length\n1,2\n3,\n", "length", ":3: '' is not allowed"},
        {"a,length\nx,2\ny,4.5\n", "", ":3: '4.5' is not allowed: a length is a whole number"},
        {"length\n1\n\n2\n", "", ":3: a blank line stands before a row, so a length may be missing; take it away"},
        {"doc;length\n1;2\n", "",
         ":1: 'doc;length' is one name; allowed: columns with commas between them, or with tabs"},
        {"a,length\n1,2\nx,y,4\n", "", ":3: the row has 3 fields, the header has 2"},
        {"a,length\n1,2\n\"x,y,4\n", "", ":3: a quote is not closed"},
        {"a,length\n\"x\ny\",2\n3,'4'\n", "length", ":4: ''4'' is not allowed"},
        {"\nlength\n4\n", "", ":1: a blank line stands before a row"},
        {"length\n", "", "holds no length below its header"},
        {"123", "", "'123' is a number"},
        {" \n \n", "", "holds no length"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("wrong.csv", cases[i].text);
        refuse("wrong.csv", cases[i].column, cases[i].part);
    }
}

/** Check the sentence that says what was read, and the mean. @param said  text behind the path */
static void expect_said(const char *name, const char *column, const char *said, double mean_tokens)
{
    struct lengths lengths = {0};
    struct error err = {0};
    CHECK_TRUE(open_file(name, column, &lengths, &err));
    CHECK_TEXT(err.text, "");
    CHECK_CONTAINS(lengths.read, said);
    CHECK_CLOSE(lengths_mean(&lengths), mean_tokens, 1e-12);
    lengths_close(&lengths);
}

/* 1,000 documents have 228,000 tokens: 900 of 128, 80 of 512, 15 of 2,048 and 5 of 8,192. Half have 128 at most. */
TEST(reader_csv__weighs_a_histogram)
{
    static const char *const histogram = "length,count\n128,900\n512,80\n2048,15\n8192,5\n";
    const double mean_tokens = (128 * 900 + 512 * 80 + 2048 * 15 + 8192 * 5) / 1000.;
    write_text("a.csv", histogram);
    expect_said("a.csv", "", ": 4 lengths, mean 227.8, median 128, longest 8192 tokens", mean_tokens);
    expect_said("a.csv", "length", "data.lengths: column 'length' weighted by 'count' of ", mean_tokens);
    expect_said("a.csv", "length:count", "weighted by 'count'", mean_tokens);
    expect_said("a.csv", "length:none", "column 'length' of ", (128 + 512 + 2048 + 8192) / 4.);
    write_text("a.tsv", "bin\tseen\n10\t0.5\n30\t1.5\n99\t0\n");
    refuse("a.tsv", "", ":1: 2 columns hold numbers: 'bin', 'seen'; data.column names the one of lengths");
    expect_said("a.tsv", ":seen", ": 3 lengths, mean 25.0, median 30, longest 30 tokens", 25);
    refuse("a.tsv", "bin:what", "there is no column 'what', the columns are: 'bin', 'seen'");
    refuse("a.tsv", "bin:bin", "data.column and data.weights both name 'bin'");
    write_text("a.csv", "length,count\n128,900\n512,-1\n");
    refuse("a.csv", "", ":3: '-1' is not allowed: a weight is a number from 0 on");
    write_text("a.csv", "length,count\n128,0\n");
    refuse("a.csv", "", "all weights are 0");
}

/* Each length is drawn in proportion to its weight: 3 of 4 documents have 30 tokens. */
TEST(reader_csv__draws_by_weight)
{
    enum { N = 40000 };
    struct scenario_data data = {.length_scale = 1, .context = 64, .global_batch = N};
    struct lengths lengths = {0};
    struct error err = {0};
    struct batch batch;
    write_text("a.csv", "length,count\n10,1\n20,0\n30,3\n");
    snprintf(data.lengths, sizeof data.lengths, "%s", harness_path("a.csv"));
    CHECK_TRUE(lengths_open(&data, SLIMSIM_SOURCE_DIR, &lengths, &err));
    CHECK_TRUE(lengths_cdf(&lengths, 10) == 0.25 && lengths_cdf(&lengths, 29) == 0.25 &&
               lengths_cdf(&lengths, 30) == 1);
    lengths_draw(&lengths, &data, 1, 0, &batch);
    int64_t n[4] = {0};
    for (int32_t i = 0; i < N; i++)
        n[batch.tokens[i] / 10]++;
    CHECK_EQUAL(n[2], 0);
    CHECK_CLOSE((double)n[3] / N, 0.75, 0.02);
    batch_free(&batch);
    lengths_close(&lengths);
}

TEST(reader_csv__reads_numbers_that_people_write)
{
    const int32_t tokens[] = {2274, 1079, 4804};
    write_text("a.csv", "tokens\n\"2,274\"\n\"1,079\"\n4804\n");
    expect("a.csv", "", 3, tokens);
    write_text("a.csv", "length\n2274.0\n1.079e+03\n4804\n");
    expect("a.csv", "", 3, tokens);
    write_text("a.tsv", "doc\tlength\nd0\t2274\nd1\t1,079\nd2\t4804\n");
    expect("a.tsv", "", 3, tokens);
    write_text("a.txt", "# written by numpy.savetxt\n2.274000000000000000e+03\n1.079e+03 # a comment\n4.804e+03\n");
    expect("a.txt", "", 3, tokens);
    static const char *const wrong[] = {"\"2,27\"", "\"22744,000\"", "\",274\"", "1e",
                                        "0x10",     "2.5.0",         "1e10",     "1e400"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[64];
        snprintf(text, sizeof text, "length\n%s\n", wrong[i]);
        write_text("a.csv", text);
        refuse("a.csv", "", ":2: ");
    }
}

/* A column that counts rows from 0 or 1 is no length. Other columns of numbers need a name. */
TEST(reader_csv__leaves_no_second_column_out_silently)
{
    const int32_t tokens[] = {3032, 1438, 6405}, request[] = {2274, 1079, 4804};
    write_text("a.csv", "Timestamp,Model,Request tokens,Total tokens\n0,ChatGPT,2274,3032\n1,ChatGPT,1079,1438\n"
                        "2,ChatGPT,4804,6405\n");
    refuse("a.csv", "", ":1: 2 columns hold numbers: 'Request tokens', 'Total tokens'; data.column names the one of");
    expect("a.csv", "Total tokens", 3, tokens);
    expect("a.csv", "Request tokens", 3, request);
    write_text("a.csv", ",length\n0,3032\n1,1438\n2,6405\n");
    expect("a.csv", "", 3, tokens);
    write_text("a.csv", "x,length\n0,3032\n1,1438\n3,6405\n");
    refuse("a.csv", "", "2 columns hold numbers: 'x', 'length'");
}

/** Write a .npy file with this header text (padded as NumPy does) and these bytes. */
static void write_npy(int version, const char *header, const void *bytes, size_t n)
{
    unsigned char file[512] = "\x93NUMPY";
    size_t start = version == 1 ? 10 : 12, n_header = 128 - start;
    CHECK(strlen(header) < n_header && 128 + n <= sizeof file);
    file[6] = (unsigned char)version;
    file[8] = (unsigned char)n_header;
    for (size_t i = 0; i < n_header; i++)
        file[start + i] = i < strlen(header) ? (unsigned char)header[i] : ' ';
    file[127] = '\n';
    memcpy(file + 128, bytes, n);
    write_bytes("a.npy", file, 128 + n);
}

#define NPY(type, shape) "{'descr': '" type "', 'fortran_order': False, 'shape': " shape ", }"

TEST(reader_npy__reads_every_supported_type)
{
    const int32_t tokens[] = {3, 2147483647, 77};
    const int64_t wide[] = {3, 2147483647, 77};
    write_npy(1, NPY("<i4", "(3,)"), tokens, sizeof tokens);
    expect("a.npy", "", 3, tokens);
    write_npy(1, NPY("<u4", "(3,)"), tokens, sizeof tokens);
    expect("a.npy", "", 3, tokens);
    write_npy(2, NPY("<i8", "(3,)"), wide, sizeof wide);
    expect("a.npy", "", 3, tokens);
    write_npy(2, NPY("<u8", "(3,)"), wide, sizeof wide);
    expect("a.npy", "", 3, tokens);
    write_npy(1, NPY("<f8", "(3,)"), (double[]){3, 2147483647, 77}, 3 * sizeof(double));
    expect("a.npy", "", 3, tokens);
    write_npy(1, NPY("<f4", "(2,)"), (float[]){3, 77}, 2 * sizeof(float));
    expect("a.npy", "", 2, (const int32_t[]){3, 77});
}

TEST(reader_npy__refuses_wrong_files)
{
    const int32_t tokens[] = {3, 0, -5};
    const uint64_t wide[] = {3, UINT64_MAX, 1};
    write_npy(1, NPY("<i4", "(3,)"), tokens, sizeof tokens);
    refuse("a.npy", "", "element 1 (from 0) is 0: a length is");
    write_npy(1, NPY("<i4", "(1,)"), tokens + 2, sizeof *tokens);
    refuse("a.npy", "", "element 0 (from 0) is -5");
    write_npy(1, NPY("<u4", "(1,)"), tokens + 2, sizeof *tokens);
    refuse("a.npy", "", "element 0 (from 0) is 4294967291");
    write_npy(1, NPY("<u8", "(3,)"), wide, sizeof wide);
    refuse("a.npy", "", "element 1 (from 0) is 1.8446744073709552e+19");
    write_npy(1, NPY("<f8", "(1,)"), &(double){2.5}, sizeof(double));
    refuse("a.npy", "", "element 0 (from 0) is 2.5: a length is");
    write_npy(1, NPY("<i2", "(3,)"), wide, sizeof wide);
    refuse("a.npy", "", "numbers of type '<i2' are not supported");
    write_npy(1, NPY(">i4", "(3,)"), tokens, sizeof tokens);
    refuse("a.npy", "", "'>i4'");
    write_npy(1, NPY("<i4", "(3, 1)"), tokens, sizeof tokens);
    refuse("a.npy", "", "shape (3, 1)");
    write_npy(1, NPY("<i4", "()"), tokens, sizeof *tokens);
    refuse("a.npy", "", "shape ()");
    write_npy(1, NPY("<i4", "(4,)"), tokens, sizeof tokens);
    refuse("a.npy", "", "promises 4 numbers of 4 bytes, 12 bytes follow");
    write_npy(1, NPY("<i4", "(0,)"), tokens, 0);
    refuse("a.npy", "", "holds no length");
    write_npy(1, "{'descr': '<i", tokens, 0);
    refuse("a.npy", "", "lacks descr or shape");
    write_npy(3, NPY("<i4", "(1,)"), tokens, sizeof *tokens);
    refuse("a.npy", "", "version 3");
    write_text("a.npy", "1 2 3 4 5 6 7 8 9");
    refuse("a.npy", "", "is not a .npy file");
    write_bytes("a.npy", "\x93NUMPY\x01\0\xff\xff  ", 12);
    refuse("a.npy", "", "ends inside its header");
}

static void write_dataset(hid_t file, const char *name, hid_t type, int rank, hsize_t n, const int64_t *values)
{
    const hsize_t extent[2] = {n, 1};
    hid_t space = H5Screate_simple(rank, extent, NULL), create = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(create, 1);
    hid_t dataset = H5Dcreate2(file, name, type, space, create, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(dataset >= 0 && H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    CHECK(H5Dclose(dataset) >= 0 && H5Pclose(create) >= 0 && H5Sclose(space) >= 0);
}

static hid_t create_hdf5(void)
{
    hid_t file = H5Fcreate(harness_path("a.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(file >= 0);
    return file;
}

TEST(reader_hdf5__finds_the_data_set)
{
    const int64_t values[] = {3, 2147483647, 77};
    const int32_t tokens[] = {3, 2147483647, 77};
    hid_t file = create_hdf5();
    write_dataset(file, "corpus/length", H5T_STD_U32BE, 1, 3, values);
    write_dataset(file, "table", H5T_STD_I32LE, 2, 3, values);
    write_dataset(file, "weight", H5T_IEEE_F64LE, 1, 3, values);
    CHECK(H5Fclose(file) >= 0);
    expect("a.h5", "", 3, tokens);
    expect("a.h5", "corpus/length", 3, tokens);
    refuse("a.h5", "weight", "data set 'weight' is not supported, only integers in one dimension");
    refuse("a.h5", "table", "data set 'table' is not supported");
    refuse("a.h5", "nothing", "a.h5: there is no data set 'nothing'; its data sets of integers are: corpus/length");
    refuse("a.h5", "corpus", "there is no data set 'corpus'; its data sets of integers are: corpus/length");
}

/* A small file must not cost much memory or time. */
TEST(reader_hdf5__refuses_more_than_the_file_can_hold)
{
    const hsize_t n[] = {10000000000, 3}, chunk[] = {1000, 100000000}, unlimited = H5S_UNLIMITED;
    for (int i = 0; i < 2; i++) {
        hid_t file = create_hdf5(), creation = H5Pcreate(H5P_DATASET_CREATE);
        CHECK(H5Pset_chunk(creation, 1, &chunk[i]) >= 0 && H5Pset_fill_value(creation, H5T_NATIVE_INT, &(int){1}) >= 0);
        hid_t space = H5Screate_simple(1, &n[i], &unlimited);
        hid_t dataset = H5Dcreate2(file, "x", H5T_STD_I32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
        CHECK(dataset >= 0);
        H5Dclose(dataset);
        H5Sclose(space);
        H5Pclose(creation);
        H5Fclose(file);
        refuse("a.h5", "",
               i == 0 ? "data set 'x' claims 10000000000 lengths and stores 0 bytes; allowed: at most 1032"
                      : "data set 'x' claims 100000000 lengths and stores 0 bytes; allowed: at most 1032");
    }
    hid_t file = create_hdf5(), group = H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    for (int i = 0; i < 6000; i++) {
        hid_t next = H5Gcreate2(group, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(next >= 0);
        H5Gclose(group);
        group = next;
    }
    H5Gclose(group);
    H5Fclose(file);
    refuse("a.h5", "", "a.h5: its groups are nested more than 64 deep; data.column names");
    refuse("a.h5", "x", "there is no data set 'x'");
}

TEST(reader_hdf5__refuses_wrong_files)
{
    const int64_t values[] = {3, 1, 0};
    hid_t file = create_hdf5();
    CHECK(H5Fclose(file) >= 0);
    refuse("a.h5", "", "holds no one-dimensional data set of integers");
    file = create_hdf5();
    write_dataset(file, "x", H5T_STD_I64LE, 1, 3, values);
    write_dataset(file, "y", H5T_STD_I64LE, 1, 0, values);
    CHECK(H5Fclose(file) >= 0);
    refuse("a.h5", "", "data.column must name one of the data sets: x, y");
    refuse("a.h5", "x", "data set 'x': element 2 (from 0) is 0: a length is");
    refuse("a.h5", "y", "data set 'y' holds no length");
    write_text("a.hdf5", "1 2 3");
    refuse("a.hdf5", "", "cannot be opened as an HDF5 file");
}

TEST(reader_json__counts_numbers_and_tokens)
{
    const int32_t tokens[] = {2274, 3, 4804}, lists[] = {3, 1, 2};
    write_text("a.json", "[2274, 3.0, 4804]");
    expect("a.json", "", 3, tokens);
    write_text("a.json", "[[5, 6, 7], [1], [2, 2]]");
    expect("a.json", "", 3, lists);
    write_text("a.jsonl", "[5, 6, 7]\n[1]\r\n\n[2, 2]");
    expect("a.jsonl", "", 3, lists);
    write_text("a.ndjson", "2274\n3\n4804\n");
    expect("a.ndjson", "", 3, tokens);
    write_text("a.json",
               "[{\"text\": \"x\", \"input_ids\": [5, 6, 7]}, {\"input_ids\": [1]}, {\"input_ids\": [2, 2]}]");
    expect("a.json", "", 3, lists);
    write_text("a.jsonl", "{\"id\": 0, \"num_tokens\": 2274}\n{\"id\": 1, \"num_tokens\": 3}\n"
                          "{\"num_tokens\": 4804, \"id\": 2}\n");
    expect("a.jsonl", "", 3, tokens);
    expect_said("a.jsonl", "", "data.lengths: field 'num_tokens' of ", (2274 + 3 + 4804) / 3.);
    write_text("a.jsonl", "{\"length\": 10, \"count\": 1}\n{\"length\": 30, \"count\": 3}\n");
    expect_said("a.jsonl", "", "field 'length' weighted by 'count' of ", 25);
}

TEST(reader_json__refuses_wrong_files)
{
    const struct {
        const char *name, *text, *column, *part;
    } cases[] = {
        {"a.jsonl", "{\"a\": 5, \"b\": [1, 2]}\n", "", ": 2 fields hold numbers: 'a', 'b'; data.column names the one"},
        {"a.jsonl", "{\"a\": 5}\n{\"b\": 6}\n", "a", ":2: '' is not allowed: a length is"},
        {"a.jsonl", "{\"a\": 5}\n{\"a\": \"x\"}\n", "", ":2: '\"x\"' is not allowed: a length is"},
        {"a.jsonl", "{\"a\": 5}\n{\"a\": []}\n", "", ":2: '0' is not allowed: a length is"},
        {"a.jsonl", "{\"a\": 5}\n{\"a\": 2.5}\n", "", ":2: '2.5' is not allowed: a length is"},
        {"a.jsonl", "{\"a\": 5}\n{\"a\": 7\n", "", ":2: is no JSON: "},
        {"a.jsonl", "{\"talk\": [{\"role\": \"user\"}], \"text\": \"x\"}\n", "",
         ": no field holds numbers; data.column names the one of lengths: 'talk', 'text'"},
        {"a.jsonl", "{\"a\": 5}\n", "c", "there is no field 'c', the fields are: 'a'"},
        {"a.jsonl", "{\"a\": 5, \"count\": -1}\n", "", ":1: '-1' is not allowed: a weight is"},
        {"a.jsonl", "\n", "", "holds no length"},
        {"a.json", "[]", "", "holds no length"},
        {"a.json", "[7, 8, {}]", "", ": element 2 (from 0): '' is not allowed: a length is"},
        {"a.json", "{\"a\": 5}\n{\"a\": 5}\n", "",
         "is no JSON: end of file expected near '{'; a file with a record on"},
        {"a.json", "{\"a\": [5]}", "", "holds no list; allowed: a list of numbers, of lists of tokens, or of records"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(cases[i].name, cases[i].text);
        refuse(cases[i].name, cases[i].column, cases[i].part);
    }
}

static size_t put(unsigned char *file, size_t at, uint64_t word, size_t width)
{
    for (size_t i = 0; i < width; i++)
        file[at + i] = (unsigned char)(word >> 8 * i);
    return at + width;
}

/** Write an index of 4 sequences of 5, 7, 11 and 13 tokens. Documents begin with the sequences `first`, `second`. */
static void write_idx(uint64_t version, uint64_t n_sequences, uint64_t first, uint64_t second)
{
    static const int32_t tokens[] = {5, 7, 11, 13};
    unsigned char file[256] = "MMIDIDX";
    size_t at = put(file, put(file, 9, version, 8), 8, 1); /* uint16 tokens */
    at = put(file, put(file, at, n_sequences, 8), 3, 8);
    for (int i = 0; i < 4; i++)
        at = put(file, at, (uint64_t)tokens[i], 4);
    for (int i = 0; i < 4; i++)
        at = put(file, at, 2 * (uint64_t)i, 8);
    at = put(file, put(file, put(file, at, first, 8), second, 8), 4, 8);
    write_bytes("a.idx", file, at);
}

TEST(reader_idx__sums_the_sequences_of_documents)
{
    const int32_t documents[] = {5 + 7 + 11, 13}, sequences[] = {5, 7, 11, 13};
    write_idx(1, 4, 0, 3);
    expect("a.idx", "", 2, documents);
    expect("a.idx", "documents", 2, documents);
    expect("a.idx", "sequences", 4, sequences);
    expect_said("a.idx", "", "data.lengths: documents of ", 18);
    refuse("a.idx", "tokens", "data.column 'tokens' is not known of an index; allowed: documents, sequences");
    write_idx(2, 4, 0, 3);
    refuse("a.idx", "", "version 2 of the index is not supported, only 1");
    write_idx(1, 1 << 30, 0, 3);
    refuse("a.idx", "", "promises 1073741824 sequences and 3 documents, and only 72 bytes follow");
    write_idx(1, 4, 0, 9);
    refuse("a.idx", "", "document 0 (from 0) has the sequences 0 to 9, of 4; the file is damaged");
    write_idx(1, 4, 3, 3);
    refuse("a.idx", "", "document 0 (from 0) has 0: a length is");
    write_text("a.idx", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16");
    refuse("a.idx", "", "is no index of Megatron-LM");
}

TEST(reader__unpacks_gzip)
{
    const int32_t tokens[] = {2274, 1079};
    static const char text[] = "length\n2274\n1079\n";
    gzFile file = gzopen(harness_path("a.csv.gz"), "wb");
    CHECK(file != NULL && gzwrite(file, text, sizeof text - 1) == sizeof text - 1 && gzclose(file) == Z_OK);
    expect("a.csv.gz", "", 2, tokens);
    struct stat status;
    CHECK(stat(harness_path("a.csv.gz"), &status) == 0 && truncate(harness_path("a.csv.gz"), status.st_size - 9) == 0);
    refuse("a.csv.gz", "", "cannot be read whole: ");
    write_text("b.csv.gz", text);
    expect("b.csv.gz", "", 2, tokens);
}

TEST(reader__refuses_archives_of_numpy)
{
    write_text("a.npz", "PK\3\4 and more");
    refuse("a.npz", "", "a.npz: is a ZIP archive, such as .npz, which is not read; numpy.save writes .npy, which is");
}

TEST(reader__names_the_command_that_converts_parquet)
{
    write_text("a.parquet", "PAR1 and more");
    refuse("a.parquet", "",
           "a.parquet: is a Parquet file, which is not read; this command makes a CSV of its column: ");
    refuse("a.parquet", "", "columns=['length']).to_csv('lengths.csv', index=False)\"");
}

/* This is more than one piece of the HDF5 reader and of every growing array. Element i is 1 + i. */
TEST(reader__keeps_the_order_of_long_inputs)
{
    enum { N = 200000 };
    int64_t *values = check_malloc(N * sizeof *values);
    FILE *text = fopen(harness_path("long.txt"), "w");
    CHECK(text != NULL);
    for (int i = 0; i < N; i++) {
        values[i] = 1 + i;
        fprintf(text, "%d ", 1 + i);
    }
    CHECK(fclose(text) == 0);
    hid_t file = create_hdf5();
    write_dataset(file, "x", H5T_STD_I32LE, 1, N, values);
    CHECK(H5Fclose(file) >= 0);
    const char *const names[] = {"long.txt", "a.h5"};
    for (int f = 0; f < 2; f++) {
        struct lengths lengths = {0};
        struct error err = {0};
        CHECK_TRUE(open_file(names[f], "", &lengths, &err));
        CHECK_EQUAL(lengths.n, N);
        int64_t n_wrong = 0;
        for (int64_t i = 0; i < lengths.n; i++)
            n_wrong += lengths.file_tokens[i] != 1 + i;
        CHECK_EQUAL(n_wrong, 0);
        lengths_close(&lengths);
    }
    free(values);
}
