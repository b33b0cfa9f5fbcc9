/* interval_set: does to one set what its input says, line by line, and answers each line with the result
 * and the set's intervals.
 *
 *   add BASE BYTES    take BYTES ALIGNMENT    best BYTES    at BASE BYTES    clear
 */
#include "simgpu/mem/interval_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int carry_out(struct sg_interval_set *set, const char *line, uint64_t *result)
{
    uint64_t a = 0, b = 0;
    char what[16] = "";
    int count = sscanf(line, "%15s %" SCNu64 " %" SCNu64, what, &a, &b) - 1;
    *result = 0;
    if (strcmp(what, "add") == 0 && count == 2) {
        sg_interval_set_add(set, a, b);
    } else if (strcmp(what, "take") == 0 && count == 2) {
        *result = sg_interval_set_take(set, a, b);
    } else if (strcmp(what, "best") == 0 && count == 1) {
        *result = sg_interval_set_take_best_fit(set, a);
    } else if (strcmp(what, "at") == 0 && count == 2) {
        *result = (uint64_t)sg_interval_set_take_at(set, a, b);
    } else if (strcmp(what, "clear") == 0) {
        free(set->at);
        *set = (struct sg_interval_set){0};
    } else {
        return -1;
    }
    return 0;
}

int main(void)
{
    struct sg_interval_set set = {0};
    char line[128];
    while (fgets(line, sizeof line, stdin)) {
        uint64_t result;
        if (carry_out(&set, line, &result) != 0) {
            fprintf(stderr, "not a command: %s", line);
            return 2;
        }
        printf("%" PRIu64, result);
        for (size_t i = 0; i < set.count; i++) {
            printf(" %" PRIu64 "-%" PRIu64, set.at[i].base, set.at[i].end);
        }
        printf("\n");
        fflush(stdout);
    }
    free(set.at);
    return 0;
}
