/* simgpu_steady US [AT_MOST]: says "ready", waits for a line, and keeps kernels of so many microseconds queued
 * until the next line comes (or AT_MOST of them have run), never waiting for the last. Prints how many ran. */
#include <poll.h>
#include <stdint.h>

#include "simgpu_check.h"

#define QUEUED_US 60000

static int is_told(void) { return poll(&(struct pollfd){.fd = 0, .events = POLLIN}, 1, 0) > 0; }

int main(int argc, char **argv)
{
    CUevent ended[2];
    CHECK(argc >= 2);
    begin();
    uint64_t us = strtoull(argv[1], NULL, 10), most = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    uint64_t batch = us && us < QUEUED_US ? QUEUED_US / us : 1, ran = 0;
    CUfunction spin = kernel("spin_us");
    OK(cuEventCreate(&ended[0], 0));
    OK(cuEventCreate(&ended[1], 0));
    puts("ready");
    fflush(stdout);
    setvbuf(stdin, NULL, _IONBF, 0);
    getchar();
    for (unsigned turn = 0; !is_told() && (!most || ran < most); turn ^= 1) {
        OK(cuEventSynchronize(ended[turn]));
        for (uint64_t i = 0; i < batch; i++) {
            LAUNCH(spin, NULL, &us);
        }
        OK(cuEventRecord(ended[turn], NULL));
        ran += batch;
    }
    OK(cuCtxSynchronize());
    printf("%llu\n", (unsigned long long)ran);
    return 0;
}
