/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validate/setting_parts.h"

/** The words of a cell in lower case, each between blanks, without signs but a number's; those that were understood are
 * blanks. */
struct words {
    char text[256];
};

static struct words words_of(const char *text)
{
    struct words words = {" "};
    size_t n = 1;
    for (; *text != '\0' && n + 2 < sizeof words.text; text++) {
        bool point = *text == '.' && isdigit((unsigned char)text[1]);
        bool sign = !isalnum((unsigned char)*text) && !point && *text != '%';
        if (!sign)
            words.text[n++] = (char)tolower((unsigned char)*text);
        else if (words.text[n - 1] != ' ')
            words.text[n++] = ' ';
    }
    if (words.text[n - 1] != ' ')
        words.text[n++] = ' ';
    if (*text != '\0') /* too long to be understood */
        memcpy(words.text + n - 4, "... ", 4);
    return words;
}

static bool has(const struct words *words, const char *phrase)
{
    const char *at = words->text;
    size_t bytes = strlen(phrase);
    while ((at = strstr(at + 1, phrase)) != NULL)
        if (at[-1] == ' ' && at[bytes] == ' ')
            return true;
    return false;
}

/** Blank a phrase wherever it stands. @return whether it stood there */
static bool take(struct words *words, const char *phrase)
{
    size_t bytes = strlen(phrase);
    bool found = false;
    for (char *at = words->text; (at = strstr(at + 1, phrase)) != NULL;)
        if (at[-1] == ' ' && at[bytes] == ' ') {
            memset(at, ' ', bytes);
            found = true;
        }
    return found;
}

static bool take_any(struct words *words, const char *const *phrases, size_t n)
{
    bool found = false;
    for (size_t i = 0; i < n; i++)
        found = take(words, phrases[i]) || found;
    return found;
}

/** The first whole number left, blanked; -1: there is none. */
static int64_t take_number(struct words *words)
{
    for (char *at = words->text; *at != '\0'; at++)
        if (at > words->text && at[-1] == ' ' && isdigit((unsigned char)*at)) {
            size_t bytes = strspn(at, "0123456789");
            int64_t number = strtol(at, NULL, 10);
            if (at[bytes] != ' ' || bytes > 9)
                continue;
            memset(at, ' ', bytes);
            return number;
        }
    return -1;
}

/** The first word left; "" when all are understood. */
static const char *left(const struct words *words)
{
    return words->text + strspn(words->text, " ");
}

/* Words that say nothing about what is recomputed. */
static const char fillers[] =
    " recompute recomputed recomputation recomputing activation activations gradient checkpoint checkpointed "
    "checkpointing checkpoints wrapper granularity method modules ac remat mode policy recipe recipes fsdp "
    "fsdp1 fsdp2 hf deepspeed torchtitan megatron nemo maxtext torch pytorch per each every all whole entire "
    "layer layers transformer decoder of the in for with on and num n true yes enabled stage stages pipeline "
    "virtual vpp config set by ";

static void take_fillers(struct words *words)
{
    static const char *const phrases[] = {
        "per block",           "each block",         "every block", "transformer block", "transformer blocks",
        "use reentrant false", "use reentrant true", "no offload",  "no cpu offload",    "without offload"};
    take_any(words, phrases, sizeof phrases / sizeof *phrases);
    for (char *at = words->text + 1, *end; *at != '\0'; at = end + 1) {
        char word[sizeof words->text + 2];
        end = strchr(at, ' ');
        snprintf(word, sizeof word, " %.*s ", (int)(end - at), at);
        if (end > at && strstr(fillers, word) != NULL)
            memset(at, ' ', (size_t)(end - at));
    }
}

/** "alpha 0.5", "offload alpha=0.5": the offload's. */
static void take_alpha(struct words *words)
{
    char *alpha = strstr(words->text, " alpha ");
    if (alpha == NULL)
        return;
    char *number = alpha + strlen(" alpha ");
    memset(number, ' ', strcspn(number, " "));
    memset(alpha, ' ', strlen(" alpha "));
    take(words, "offload");
}

/** N of "every Nth layer", "every other layer": 2, and of torchtitan's "selective (N)", whose N-th layers recompute
 * all; blanked. 0: none of these. Of Megatron "every N layers" is left: it may be the layers of one checkpoint. */
static int64_t take_every_nth(const struct cells *cells, struct words *words)
{
    const char *list = strcasestr(cell_text(cells, "recompute"), "selective (");
    bool titan = cell_has(cells, "framework", "titan");
    if (list != NULL && titan && isdigit((unsigned char)list[strlen("selective (")])) {
        take(words, "selective");
        return take_number(words);
    }
    char *every = strstr(words->text, " every "), *end = NULL;
    if (every == NULL)
        return 0;
    char *number = every + strlen(" every "), *word = number + strcspn(number, " ");
    bool other = strncmp(number, "other ", 6) == 0;
    int64_t n = other ? 2 : strtol(number, &end, 10);
    bool plain = !other && *end == ' ', layers = strncmp(word, " layer", 6) == 0;
    if (n < 1 || !layers || (plain && n > 1 && cell_is_megatron(cells)))
        return 0;
    memset(every, ' ', (size_t)(word - every));
    if (titan)
        take(words, "selective");
    return n;
}

/** torchtitan's selective op, by its name, by what it saves, or by neither: its configurations have it. */
static bool is_selective_op(const struct cells *cells, struct words words)
{
    static const char *const named[] = {"per op", "op", "matmul", "matmuls"};
    if (!cell_has(cells, "framework", "titan"))
        return false;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (has(&words, named[i]))
            return true;
    bool selective = take(&words, "selective");
    selective = take(&words, "sac") || selective;
    take_fillers(&words);
    if (!selective || *left(&words) != '\0')
        return false;
    cell_assume(cells, "torchtitan's selective op");
    return true;
}

/** Whether the cell says that nothing is recomputed: at its begin, or behind what it is about ("remat: none"). A remark
 * may follow that names nothing. */
static bool is_none(const struct cells *cells, struct words words)
{
    static const char *const subjects[] = {"activation",    "activations", "gradient", "checkpointing", "recompute",
                                           "recomputation", "remat",       "ac",       "granularity"};
    static const char *const none[] = {"none ",    "no ", "off ",      "false ",      "disabled ",
                                       "without ", "0 ",  "not used ", "not needed ", "not enabled "};
    static const char *const some[] = {"full", "selective", "block", "core", "uniform"};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (cell_says(cells, "recompute", some[i]))
            return false;
    if (cell_has(cells, "recompute", "except") || cell_has(cells, "recompute", "but "))
        return false;
    if (cell_is_none(cells, "recompute"))
        return true;
    const char *at = left(&words);
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        size_t bytes = strlen(subjects[i]);
        if (strncmp(at, subjects[i], bytes) == 0 && at[bytes] == ' ') {
            at += bytes + strspn(at + bytes, " ");
            i = SIZE_MAX; /* from the first subject again */
        }
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (strncmp(at, none[i], strlen(none[i])) == 0)
            return true;
    return false;
}

/** Parts of a layer that are named, as enum recompute. */
static int32_t take_parts(struct words *words)
{
    static const struct {
        const char *phrase;
        int32_t part;
    } parts[] = {{"core attention", RECOMPUTE_ATTENTION_CORE},
                 {"core attn", RECOMPUTE_ATTENTION_CORE},
                 {"attention core", RECOMPUTE_ATTENTION_CORE},
                 {"swiglu activation", RECOMPUTE_ACTIVATION},
                 {"swiglu activations", RECOMPUTE_ACTIVATION},
                 {"swiglu act", RECOMPUTE_ACTIVATION},
                 {"layernorm", RECOMPUTE_NORM},
                 {"layernorms", RECOMPUTE_NORM},
                 {"rmsnorm", RECOMPUTE_NORM},
                 {"rmsnorms", RECOMPUTE_NORM},
                 {"norm", RECOMPUTE_NORM},
                 {"norms", RECOMPUTE_NORM}};
    int32_t found = RECOMPUTE_NONE;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (take(words, parts[i].phrase))
            found |= parts[i].part;
    take(words, "outputs");
    take(words, "output");
    return found;
}

/** What frameworks of PyTorch call the recomputation of whole layers; Transformers and DeepSpeed have no other. */
static bool names_whole_layers(const struct cells *cells, const struct words *words)
{
    static const char *const names[] =
        {"gradient checkpointing", "activation checkpointing", "all layers", "every layer", "each layer", "per layer"},
                             *const only[] = {"Transformers", "HF", "HuggingFace", "Hugging Face", "DeepSpeed"},
                             *const yes[] = {"true", "yes", "on", "enabled"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (has(words, names[i]))
            return true;
    bool one_kind = false, said = false;
    for (size_t i = 0; i < sizeof only / sizeof *only; i++)
        one_kind = one_kind || cell_has(cells, "framework", only[i]);
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        said = said || has(words, yes[i]);
    return one_kind && said;
}

static struct setting_recompute refuse(const struct cells *cells)
{
    cell_skip(cells,
              cell_has(cells, "framework", "fms-fsdp")
                  ? "recompute '%.90s': the share of layers (selective_checkpointing) is not given"
                  : "recompute '%.90s' has no model; none, full, every Nth layer and core attention have",
              cell_text(cells, "recompute"));
    return (struct setting_recompute){.parts = RECOMPUTE_FULL};
}

/** Parts of each layer: those named, of Megatron's "selective" alone, or its option for that, the core of attention. */
static struct setting_recompute read_parts(const struct cells *cells, struct words words)
{
    struct setting_recompute read = {.parts = take_parts(&words)};
    bool selective = take(&words, "selective") || cell_has(cells, "recompute", "--recompute-activations");
    take_fillers(&words);
    if (read.parts == RECOMPUTE_NONE && selective && cell_is_megatron(cells)) {
        take(&words, "attention");
        take(&words, "attn");
        cell_assume(cells, "selective recomputation of core attention");
        read.parts = RECOMPUTE_ATTENTION_CORE;
    }
    return read.parts == RECOMPUTE_NONE || *left(&words) != '\0' ? refuse(cells) : read;
}

/** Whole layers: all, every Nth, or "block, N" of each virtual stage. A number is that of "block, N" or "uniform, 1",
 * or all layers of the model. */
static struct setting_recompute read_whole_layers(const struct cells *cells, struct words words, int64_t layers)
{
    struct setting_recompute read = {.parts = RECOMPUTE_FULL, .every = take_every_nth(cells, &words)};
    take(&words, "full");
    take(&words, "sac");
    take_fillers(&words);
    bool block = take(&words, "block"), uniform = take(&words, "uniform");
    int64_t number = take_number(&words);
    if (block) {
        read.block = number;
        if (number < 1)
            cell_skip(cells, "recompute '%.90s': how many layers is not given", cell_text(cells, "recompute"));
        number = take_number(&words);
    } else if (uniform && number > 1)
        cell_skip(cells, "recompute '%.90s': checkpoints of several layers have no model",
                  cell_text(cells, "recompute"));
    else if (uniform)
        number = take_number(&words);
    for (; number >= 0; number = take_number(&words))
        if (number != layers)
            cell_skip(cells, "recompute '%.90s': a share of layers is read as 'block, N' or 'every Nth layer'",
                      cell_text(cells, "recompute"));
    return *left(&words) != '\0' || (block && uniform) ? refuse(cells) : read;
}

struct setting_recompute setting_read_recompute(const struct cells *cells, int64_t layers)
{
    struct words words = words_of(cell_text(cells, "recompute")), copy;
    take_alpha(&words);
    if (*left(&words) == '\0' && *cell_text(cells, "recompute") == '\0')
        cell_assume(cells, "no recomputation");
    if (*left(&words) == '\0' || is_none(cells, words))
        return (struct setting_recompute){.parts = RECOMPUTE_NONE};
    copy = words;
    if (take_every_nth(cells, &copy) > 0)
        return read_whole_layers(cells, words, layers);
    if (is_selective_op(cells, words))
        return (struct setting_recompute){.parts = RECOMPUTE_SELECTIVE | RECOMPUTE_ALTERNATE_GEMMS};
    if (cell_has(cells, "framework", "MaxText") && has(&words, "minimal flash"))
        return (struct setting_recompute){.parts = RECOMPUTE_SELECTIVE};
    if (!cell_says(cells, "recompute", "selective") && take_parts(&copy) == RECOMPUTE_NONE) {
        bool method = cell_is_megatron(cells) && (has(&words, "uniform") || has(&words, "block"));
        bool named = !cell_is_megatron(cells) && names_whole_layers(cells, &words);
        if (!has(&words, "full") && (method || named))
            cell_assume(cells, "whole layers recomputed");
        if (has(&words, "full") || method || named)
            return read_whole_layers(cells, words, layers);
    }
    return read_parts(cells, words);
}

int64_t setting_recompute_layers(const struct cells *cells, struct setting_recompute read,
                                 const struct setting *setting)
{
    int64_t vpp = setting->plan.vpp, pp = setting->plan.pp;
    int64_t largest = (setting->model.layers + pp * vpp - 1) / (pp * vpp); /* of a virtual stage */
    if (read.every > 1) {
        int64_t n = setting->model.layers / read.every;
        if (n < 1 || n % (pp * vpp) != 0)
            cell_skip(cells, "recompute '%.90s': stages do not recompute equally many layers",
                      cell_text(cells, "recompute"));
        return n / pp;
    }
    return read.block > 0 && read.block < largest ? read.block * vpp : 0;
}

bool setting_stops_early(const struct cells *cells, int32_t recompute)
{
    bool later = cell_has(cells, "gpu", "H100") || cell_has(cells, "precision", "amp_bf16");
    if (recompute != RECOMPUTE_FULL)
        return false;
    if (cell_has(cells, "recompute", "use_reentrant=False"))
        return true;
    if (!cell_has(cells, "framework", "llm-foundry"))
        return cell_has(cells, "framework", "titan") || cell_has(cells, "framework", "fms-fsdp");
    if (later)
        cell_assume(cells, "recomputation that stops early (PyTorch 2.1)");
    return later;
}
