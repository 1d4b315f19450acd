/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/largest_value.h"

#include "base/check.h"

/** Return the distance between neighbours that are at least `value` and below the next power of two. */
static int64_t step_at(const struct largest_range *range, int64_t value)
{
    int64_t step = 1;
    while (range->quarters && value >= 8 * step)
        step *= 2;
    return step;
}

int64_t largest_at_most(const struct largest_range *range, int64_t value)
{
    return value - value % step_at(range, value);
}

int64_t largest_next(const struct largest_range *range, int64_t value)
{
    int64_t step = step_at(range, value);
    return value - value % step + step;
}

/** A search between the largest value that fits and the least one that does not. */
struct bracket {
    const struct largest_range *range;
    largest_trial *trial;
    void *context;
    int64_t low;  /* fits; 0: none */
    int64_t high; /* does not fit; 0: none */
};

static bool try_value(struct bracket *bracket, int64_t value, struct error *err)
{
    bool fits = false;
    if (!bracket->trial(bracket->context, value, &fits, err))
        return false;
    *(fits ? &bracket->low : &bracket->high) = value;
    return true;
}

/** Double from a value that fits, or halve from one that does not. */
static bool find_bracket(struct bracket *bracket, struct error *err)
{
    const struct largest_range *range = bracket->range;
    int64_t most = largest_at_most(range, range->most);
    bool ok = try_value(bracket, range->start < most ? largest_at_most(range, range->start) : most, err);
    while (ok && bracket->high == 0 && bracket->low < most)
        ok = try_value(bracket, bracket->low < most / 2 ? 2 * bracket->low : most, err);
    while (ok && bracket->low == 0 && bracket->high > range->least) {
        int64_t half = largest_at_most(range, bracket->high / 2);
        ok = try_value(bracket, half > range->least ? half : range->least, err);
    }
    return ok;
}

static bool bisect(struct bracket *bracket, struct error *err)
{
    bool ok = true;
    while (ok && bracket->low > 0 && bracket->high > 0) {
        int64_t middle = largest_at_most(bracket->range, bracket->low + (bracket->high - bracket->low) / 2);
        if (middle <= bracket->low)
            middle = largest_next(bracket->range, bracket->low);
        if (middle >= bracket->high)
            break;
        ok = try_value(bracket, middle, err);
    }
    return ok;
}

/** Try the values above the boundary. */
static bool try_neighbours(struct bracket *bracket, struct error *err)
{
    int64_t values[LARGEST_NEIGHBOURS], boundary;
    do {
        int32_t n = 0;
        boundary = bracket->low;
        bracket->high = 0;
        for (int64_t value = largest_next(bracket->range, boundary);
             n < LARGEST_NEIGHBOURS && value <= bracket->range->most; value = largest_next(bracket->range, value))
            values[n++] = value;
        while (bracket->low == boundary && n > 0)
            if (!try_value(bracket, values[--n], err))
                return false;
    } while (bracket->low > boundary);
    return true;
}

bool largest_value_find(const struct largest_range *range, largest_trial *trial, void *context,
                        struct largest_value *largest, struct error *err)
{
    struct bracket bracket = {range, trial, context, 0, 0};
    CHECK(1 <= range->least && range->least <= range->most);
    bool ok =
        find_bracket(&bracket, err) && bisect(&bracket, err) && (bracket.low == 0 || try_neighbours(&bracket, err));
    *largest = (struct largest_value){bracket.low, bracket.high};
    return ok;
}
