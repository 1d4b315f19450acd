/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/** Read a whole number from an environment variable. @return false if it is not set; with err if it is not a number */
static bool from_environment(const char *name, int64_t *value, struct error *err)
{
    const char *text = getenv(name);
    char *end;
    if (text == NULL || *text == '\0')
        return false;
    errno = 0;
    *value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return error_add(err, "--shard auto: %s is '%s', not a whole number", name, text);
    return true;
}

/** Refine the shard by one level, of which this is process `rank` (from 0) of `size`. */
static void refine(struct shard *shard, int64_t rank, int64_t size, const char *name, struct error *err)
{
    int64_t k = ((int64_t)shard->k - 1) * size + rank + 1, n = shard->n * size;
    if (rank < 0 || size < 1 || rank >= size || size > SHARD_MAX || n > SHARD_MAX)
        error_add(err, "--shard auto: %s gives part %lld of %lld; at most %d parts are allowed, counted from 0", name,
                  (long long)rank, (long long)size, SHARD_MAX);
    else
        *shard = (struct shard){(int32_t)k, (int32_t)n};
}

static bool from_scheduler(struct shard *shard, struct error *err)
{
    int64_t rank, size, least = 0;
    bool array =
        from_environment("SLURM_ARRAY_TASK_ID", &rank, err) && from_environment("SLURM_ARRAY_TASK_COUNT", &size, err);
    *shard = (struct shard){1, 1};
    if (array) {
        from_environment("SLURM_ARRAY_TASK_MIN", &least, err);
        refine(shard, rank - least, size, "SLURM_ARRAY_TASK_ID", err);
    }
    bool srun = from_environment("SLURM_PROCID", &rank, err) && from_environment("SLURM_NTASKS", &size, err);
    if (srun && getenv("SLURM_STEP_ID") != NULL) { /* the batch script itself is no process of srun */
        refine(shard, rank, size, "SLURM_PROCID", err);
        return err->status == ERROR_NONE;
    }
    bool mpi =
        from_environment("OMPI_COMM_WORLD_RANK", &rank, err) && from_environment("OMPI_COMM_WORLD_SIZE", &size, err);
    if (mpi)
        refine(shard, rank, size, "OMPI_COMM_WORLD_RANK", err);
    if (!array && !mpi && !srun && err->status == ERROR_NONE)
        error_set(err, "--shard auto: no scheduler says which part this is (SLURM_ARRAY_TASK_ID and _COUNT, "
                       "SLURM_PROCID and SLURM_NTASKS, OMPI_COMM_WORLD_RANK and _SIZE); use --shard k/n");
    return err->status == ERROR_NONE;
}

bool shard_parse(const char *text, struct shard *shard, struct error *err)
{
    if (strcmp(text, "auto") == 0)
        return from_scheduler(shard, err);
    char *slash, *end;
    long k = strtol(text, &slash, 10), n = *slash == '/' ? strtol(slash + 1, &end, 10) : 0;
    if (*slash != '/' || *end != '\0' || k < 1 || n < k || n > SHARD_MAX || slash == text)
        return error_set_status(err, ERROR_USAGE, "--shard: '%s' is not k/n with 1 <= k <= n <= %d, nor auto", text,
                                SHARD_MAX);
    *shard = (struct shard){(int32_t)k, (int32_t)n};
    return true;
}

char *shard_path(const struct shard *shard, const char *directory, const char *name, const char *end)
{
    return shard->n > 0 ? check_asprintf("%s/%s.shard-%d-of-%d.%s", directory, name, shard->k, shard->n, end)
                        : check_asprintf("%s/%s.%s", directory, name, end);
}
