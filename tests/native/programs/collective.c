/* One of several processes that compute together: collective HOW PATH RANK RANKS ROUNDS AHEAD BYTES
 *
 * Each round of each process needs the same round of all others: a kernel that spins until theirs have
 * begun (HOW = host: through host memory that all have registered, at PATH; device: through GPU memory
 * that rank 0 makes and exports; ipc: allocates and exports; pool: from a pool that it exports), or a stream that waits for words which
 * others' streams write (values).
 * AHEAD rounds are submitted at a time. BYTES of GPU memory of its own are there besides.
 *
 * Says "ready" once all of that is there, then "done" if every word was right. */
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simgpu_check.h"

enum { ELEMENTS = 64, BOARD_BYTES = 2 << 20, RANKS_MAX = 8, OFTEN = 64, STEPS_MAX = 4096 };

static uint64_t data_of[RANKS_MAX][ELEMENTS];

static int open_patiently(const char *path)
{
    for (;;) {
        int file = open(path, O_RDWR | O_CLOEXEC);
        if (file >= 0) {
            return file;
        }
        usleep(1000);
    }
}

static CUdeviceptr share_host(const char *path)
{
    CUdeviceptr at;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* all make it, of the same size */
    CHECK(file >= 0 && ftruncate(file, BOARD_BYTES) == 0);
    void *memory = mmap(NULL, BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(memory != MAP_FAILED);
    OK(cuMemHostRegister_v2(memory, BOARD_BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(cuMemHostGetDevicePointer_v2(&at, memory, 0));
    return at;
}

/* Rank 0 tells by its file where its descriptor is, as a program without a socket can. */
static CUdeviceptr share_device(const char *path, unsigned rank)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle chunk;
    CUdeviceptr at;
    char partial[4096], where[64];
    int file;
    if (rank == 0) {
        OK(cuMemCreate(&chunk, BOARD_BYTES, &prop, 0));
        OK(cuMemExportToShareableHandle(&file, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    } else {
        int note = open_patiently(path);
        ssize_t got = read(note, where, sizeof(where) - 1);
        CHECK(got > 0);
        where[got] = 0;
        file = open_patiently(where);
        OK(cuMemImportFromShareableHandle(&chunk, (void *)(intptr_t)file,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    }
    OK(cuMemAddressReserve(&at, BOARD_BYTES, 0, 0, 0));
    OK(cuMemMap(at, BOARD_BYTES, 0, chunk, 0));
    OK(cuMemSetAccess(at, BOARD_BYTES, &access, 1));
    if (rank == 0) {
        OK(cuMemsetD8_v2(at, 0, BOARD_BYTES));
        OK(cuCtxSynchronize());
        snprintf(partial, sizeof(partial), "%s.new", path);
        snprintf(where, sizeof(where), "/proc/%d/fd/%d", (int)getpid(), file);
        int note = open(partial, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        CHECK(note >= 0 && write(note, where, strlen(where)) > 0);
        CHECK(rename(partial, path) == 0);
    }
    return at;
}

/* By a handle that anybody can read. */
static CUdeviceptr share_ipc(const char *path, unsigned rank)
{
    CUdeviceptr at;
    CUipcMemHandle handle;
    char partial[4096];
    if (rank != 0) {
        int file = open_patiently(path);
        CHECK(read(file, &handle, sizeof(handle)) == sizeof(handle));
        OK(cuIpcOpenMemHandle_v2(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        return at;
    }
    OK(cuMemAlloc_v2(&at, BOARD_BYTES));
    OK(cuMemsetD8_v2(at, 0, BOARD_BYTES));
    OK(cuCtxSynchronize());
    OK(cuIpcGetMemHandle(&handle, at));
    snprintf(partial, sizeof(partial), "%s.new", path);
    int file = open(partial, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(file >= 0 && write(file, &handle, sizeof(handle)) == sizeof(handle));
    CHECK(rename(partial, path) == 0);
    return at;
}

struct from_pool {
    char where[64];
    CUmemPoolPtrExportData data;
};

static CUdeviceptr share_pool(const char *path, unsigned rank)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    struct from_pool note = {0};
    CUmemoryPool pool;
    CUdeviceptr at;
    char partial[4096];
    int file;
    if (rank != 0) {
        int from = open_patiently(path);
        CHECK(read(from, &note, sizeof(note)) == sizeof(note));
        note.where[sizeof(note.where) - 1] = 0;
        file = open_patiently(note.where);
        OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)file, props.handleTypes, 0));
        OK(cuMemPoolImportPointer(&at, pool, &note.data));
        return at;
    }
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&at, BOARD_BYTES, pool, NULL));
    OK(cuMemsetD8_v2(at, 0, BOARD_BYTES));
    OK(cuCtxSynchronize());
    OK(cuMemPoolExportToShareableHandle(&file, pool, props.handleTypes, 0));
    OK(cuMemPoolExportPointer(&note.data, at));
    snprintf(note.where, sizeof(note.where), "/proc/%d/fd/%d", (int)getpid(), file);
    snprintf(partial, sizeof(partial), "%s.new", path);
    int to = open(partial, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(to >= 0 && write(to, &note, sizeof(note)) == sizeof(note));
    CHECK(rename(partial, path) == 0);
    return at;
}

static CUdeviceptr share(const char *how, const char *path, unsigned rank)
{
    if (!strcmp(how, "device")) {
        return share_device(path, rank);
    }
    if (!strcmp(how, "pool")) {
        return share_pool(path, rank);
    }
    return !strcmp(how, "ipc") ? share_ipc(path, rank) : share_host(path);
}

/* What step_u64 and all_reduce_u64 do, for everybody. */
static void foretell(unsigned ranks, unsigned round)
{
    for (unsigned i = 0; i < ELEMENTS; i++) {
        uint64_t sum = 0;
        for (unsigned rank = 0; rank < ranks; rank++) {
            sum += data_of[rank][i] * 6364136223846793005ull + round * (rank + 1ull) + i;
        }
        for (unsigned rank = 0; rank < ranks; rank++) {
            data_of[rank][i] = sum;
        }
    }
}

int main(int argc, char **argv)
{
    CUstream stream;
    CUdeviceptr own, data, found, board;
    uint64_t elements = ELEMENTS, got[ELEMENTS], steps[STEPS_MAX], step_count = 0, errors = 0;
    CHECK(argc == 8);
    int by_values = !strcmp(argv[1], "values");
    uint32_t rank = (uint32_t)atoi(argv[3]), ranks = (uint32_t)atoi(argv[4]);
    uint32_t rounds = (uint32_t)atoi(argv[5]), ahead = (uint32_t)atoi(argv[6]);
    uint64_t words = strtoull(argv[7], NULL, 10) / 8, seed = rank;
    CHECK(rank < ranks && ranks <= RANKS_MAX && ahead && rounds / OFTEN < STEPS_MAX);
    begin();
    CUfunction fill = kernel("fill_u64"), step = kernel("step_u64"),
               check_own = kernel("check_u64");
    CUfunction reduce = kernel("all_reduce_u64");
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&own, words * 8));
    OK(cuMemAlloc_v2(&data, sizeof(got)));
    OK(cuMemAlloc_v2(&found, sizeof(steps) + 8));
    board = share(argv[1], argv[2], rank);
    CUdeviceptr flags = board, boards = board + 4096, counter = found + sizeof(steps);
    LAUNCH(fill, stream, &own, &words, &seed);
    for (unsigned r = 0; r < ranks; r++) {
        for (unsigned i = 0; i < ELEMENTS; i++) {
            data_of[r][i] = r * 1000 + i;
        }
    }
    OK(cuMemcpyHtoDAsync_v2(data, data_of[rank], sizeof(got), stream));
    OK(cuMemsetD8Async(counter, 0, 8, stream));
    OK(cuStreamSynchronize(stream));
    puts("ready");
    fflush(stdout);

    for (uint32_t round = 1; round <= rounds; round++) {
        uint64_t k = round * (rank + 1ull);
        if (by_values) {
            OK(cuStreamWriteValue32_v2(stream, flags + 4ull * rank, round, 0));
            OK(cuStreamWriteValue64_v2(stream, boards + 8ull * rank, round * 3ull, 0));
            for (uint32_t other = 0; other < ranks; other++) {
                OK(cuStreamWaitValue32_v2(stream, flags + 4ull * other, round,
                                          CU_STREAM_WAIT_VALUE_GEQ));
                OK(cuStreamWaitValue64_v2(stream, boards + 8ull * other, round * 3ull,
                                          CU_STREAM_WAIT_VALUE_GEQ));
            }
        } else {
            LAUNCH(step, stream, &data, &elements, &k);
            LAUNCH(reduce, stream, &flags, &boards, &data, &elements, &rank, &ranks, &round);
            foretell(ranks, round);
        }
        if (round % OFTEN == 0) {
            steps[step_count++] = k;
            LAUNCH(step, stream, &own, &words, &k);
        }
        if (round % ahead == 0) {
            OK(cuStreamSynchronize(stream));
            usleep((round * 7919u + rank * 104729u) % 300);
        }
    }
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(got, data, sizeof(got)));
    for (unsigned i = 0; i < ELEMENTS; i++) {
        CHECK(got[i] == data_of[rank][i]);
    }
    OK(cuMemcpyHtoD_v2(found, steps, sizeof(steps)));
    LAUNCH(check_own, stream, &own, &words, &seed, &found, &step_count, &counter);
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(&errors, counter, 8));
    CHECK(errors == 0);
    puts("done");
    return 0;
}
