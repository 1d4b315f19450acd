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

/** Open a file of the scratch folder. @param column "" for none */
static bool open_file(const char *name, const char *column, struct lengths *lengths, struct error *err)
{
    struct scenario_data data = {.length_scale = 1, .context = 4096, .long_documents = SCENARIO_CUT, .global_batch = 8};
    snprintf(data.lengths, sizeof data.lengths, "%s", harness_path(name));
    snprintf(data.column, sizeof data.column, "%s", column);
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
        {"12,1e3", ":1:4: '1e3'"},
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
    refuse("wrong.txt", "length", "data.column 'length' is for .csv, .h5 and .hdf5 files only");
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
        {"a,b\n1,2\n", "", ":1: data.column must name one of the columns: a,b"},
        {"a,b,a\n1,2,3\n", "a", ":1: two columns are called 'a'"},
        {"tokens,tokens\n1,2\n", "", ":1: two columns are called 'tokens'"},
        {"a,b\n1,2\n", "c", ":1: there is no column 'c', the columns are: a,b"},
        {"12\n13\n", "", ":1: the first line must hold the names of the columns, '12' is a number"},
        {"a,length\n1,2\n3,\n", "", ":3: '' is not allowed"},
        {"a,length\n1,2\n3,4.0\n", "", ":3: '4.0' is not allowed: a length is a whole number"},
        {"length\n1\n\n2\n", "", ":3: '' is not allowed"},
        {"a,length\n1,2\nx,y,4\n", "", ":3: the row has 3 fields, the header has 2"},
        {"a,length\n1,2\n\"x,y,4\n", "", ":3: a quote is not closed"},
        {"a,length\n\"x\ny\",2\n3,'4'\n", "", ":4: ''4'' is not allowed"},
        {"\nlength\n4\n", "", ":1: '' is not allowed"},
        {"length\n", "", "holds no length below its header"},
        {"123", "", "'123' is a number"},
        {" \n \n", "", "holds no length"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("wrong.csv", cases[i].text);
        refuse("wrong.csv", cases[i].column, cases[i].part);
    }
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
    refuse("a.npy", "", "element 1 (from 0) is 18446744073709551615");
    write_npy(1, NPY("<f8", "(3,)"), wide, sizeof wide);
    refuse("a.npy", "", "numbers of type '<f8' are not supported");
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
