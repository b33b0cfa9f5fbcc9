/* Drives a fuzz target where there is no libFuzzer: inputs by seeded dice.
 *
 *   target SEED SECONDS|xCOUNT
 *
 * Each input is a few packets that look like messages, with a few bytes changed. Prints how many
 * inputs and packets there were.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state;

static uint64_t dice(void)
{
    state += 0x9e3779b97f4a7c15ull;
    uint64_t x = state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* A packet of any length, whose header mostly tells the truth. */
static size_t packet(uint8_t *at)
{
    static const uint16_t sizes[] = {8, 16, 24, 32, 64, 88, 108, 160, 256, 511, 512, 513, 600};
    size_t length = sizes[dice() % (sizeof(sizes) / sizeof(sizes[0]))];
    struct mw_header header = {(uint16_t)(dice() % 64), (uint16_t)length, (uint32_t)(dice() % 3)};
    length = dice() % 20 ? length : dice() % 8;
    for (size_t i = 0; i < length; i++) {
        at[3 + i] = dice() % 4 ? 0 : (uint8_t)dice();
    }
    memcpy(at + 3, &header, length < sizeof(header) ? length : sizeof(header));
    for (uint64_t i = dice() % 3; i && length && dice() % 4 == 0; i--) {
        at[3 + dice() % length] = (uint8_t)dice();
    }
    at[0] = (uint8_t)length;
    at[1] = (uint8_t)(length >> 8);
    at[2] = (uint8_t)(dice() % 3 ? dice() % 8 : dice());
    return length + 3;
}

static int descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) {
        return -1;
    }
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    static uint8_t input[8192];
    unsigned long inputs = 0, packets = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: %s SEED SECONDS|xCOUNT\n", argv[0]);
        return 2;
    }
    state = strtoull(argv[1], NULL, 10);
    unsigned long most = argv[2][0] == 'x' ? strtoul(argv[2] + 1, NULL, 10) : 0;
    time_t end = time(NULL) + (most ? 0 : (time_t)strtoul(argv[2], NULL, 10));
    int before = descriptors();
    while (most ? inputs < most : time(NULL) < end) {
        size_t size = 0;
        for (uint64_t count = dice() % 8 + 1; count; count--, packets++) {
            size += packet(input + size);
        }
        LLVMFuzzerTestOneInput(input, size);
        inputs++;
    }
    if (descriptors() != before) {
        fprintf(stderr, "%d descriptors stay open\n", descriptors() - before);
        return 1;
    }
    printf("%lu inputs, %lu packets\n", inputs, packets);
    return 0;
}
