/* simgpu_keep: does what its input says, line by line, and answers each line.
 *   take BYTES   allocates: "taken"
 *   fill         writes 0x5A everywhere: "filled"
 *   look         how many of its bytes are not zero, how many of its pages begin with 0x5A: two numbers
 *   free         "freed" */
#include <stdint.h>

#include "simgpu_check.h"

#define PAGE 4096u

int main(void)
{
    static unsigned char copy[1 << 20];
    char word[16];
    unsigned long long bytes = 0;
    CUdeviceptr at = 0;
    begin();
    puts("ready");
    fflush(stdout);
    while (scanf("%15s", word) == 1) {
        if (strcmp(word, "take") == 0) {
            CHECK(scanf("%llu", &bytes) == 1);
            OK(cuMemAlloc_v2(&at, bytes));
            puts("taken");
        } else if (strcmp(word, "fill") == 0) {
            OK(cuMemsetD8_v2(at, 0x5A, bytes));
            OK(cuCtxSynchronize());
            puts("filled");
        } else if (strcmp(word, "look") == 0) {
            size_t other = 0, old = 0;
            for (size_t i = 0; i < bytes; i++) {
                if (i % sizeof copy == 0) {
                    OK(cuMemcpyDtoH_v2(copy, at + i,
                                       bytes - i < sizeof copy ? bytes - i : sizeof copy));
                }
                other += copy[i % sizeof copy] != 0;
                old += i % PAGE == 0 && copy[i % sizeof copy] == 0x5A;
            }
            printf("%zu %zu\n", other, old);
        } else {
            OK(cuMemFree_v2(at));
            puts("freed");
        }
        fflush(stdout);
    }
    return 0;
}
