/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search/search_result.h"

#include <stdlib.h>

void search_result_free_planned(struct search_result *result)
{
    for (int32_t i = 0; i < result->n_iterations; i++)
        plan_free(&result->planned[i]);
}

void search_result_free(struct search_result *result)
{
    search_result_free_planned(result);
    free(result->planned);
    free(result->plans);
    free(result->ranked);
    *result = (struct search_result){0};
}
