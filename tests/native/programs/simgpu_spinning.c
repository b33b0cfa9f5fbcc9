/* simgpu_spinning: a kernel of its spins until a line comes, then gets what it waits for from another of its streams;
 * meanwhile everybody else's kernels run. Says "spinning" first and "ok" in the end. */
#include <stdint.h>
#include <unistd.h>

#include "simgpu_check.h"

int main(void)
{
    CUstream first, second;
    CUdeviceptr words;
    uint32_t found[2], one = 1;
    uint64_t for_ever = 0, a_while_us = 20000, us = 100;
    begin();
    CUfunction await = kernel("await_u32"), signal = kernel("signal_u32"), spin = kernel("spin_us");
    OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&words, 4096));
    OK(cuMemsetD8_v2(words, 0, 4096));
    CUdeviceptr word = words, gave_up = words + 4;

    LAUNCH(await, first, &word, &one, &a_while_us, &gave_up); /* nobody writes it: it gives up */
    OK(cuStreamSynchronize(first));
    OK(cuMemcpyDtoH_v2(found, words, sizeof(found)));
    CHECK(found[0] == 0 && found[1] == 1);

    LAUNCH(await, first, &word, &one, &for_ever, &gave_up);
    usleep(10000);
    puts("spinning");
    fflush(stdout);
    CHECK(getchar() == '\n');
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(first));
    LAUNCH(spin, second, &us);
    OK(cuStreamSynchronize(second));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(first));
    LAUNCH(signal, second, &word, &one);
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH_v2(found, words, sizeof(found)));
    CHECK(found[0] == 1 && found[1] == 1);
    puts("ok");
    return 0;
}
