/* Entry points that no driver has, for tests of unknown functions. */
#ifndef SIMGPU_FAKE_ENTRYPOINTS_H
#define SIMGPU_FAKE_ENTRYPOINTS_H

/* The bytes of a CUuuid for which cuGetExportTable has a table, with one function in it. */
#define SIMGPU_EXPORT_TABLE \
    {0x6d, 0x6f, 0x69, 0x65, 0x74, 0x79, 0, 1, 2, 3, 4, 5, 6, 7, (char)0xff, (char)0xff}

/* Two entry points that no CUDA driver has, for tests of functions that a newer driver adds. The first
 * returns the sum of its numbers in *sum; the second calls `function`. */
int cuSimgpuSum(double *sum, int a, long long b, int c, long long d, int e, long long f, int g,
                double h, double i);
int cuSimgpuCall(int (*function)(void *argument), void *argument);

#endif
