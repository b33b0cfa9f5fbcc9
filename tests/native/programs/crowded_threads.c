/* Threads that allocate and free on a nearly full GPU, and never have more together than was free at first.
 *
 *     crowded_threads WORDS THREADS ROUNDS SEED
 *
 * WORDS are letters: l(arge), s(mall), v(irtual: cuMemCreate) and a(sync: from a pool) allocations, one of them at random in each round;
 * p: the program exports memory, and so is pinned; o: other threads free than those that allocate. A thread that
 * has no room waits until another has freed. It prints how many allocations failed: 0 where the driver is right. */
#include <pthread.h>

#include "simgpu_check.h"

#define MIB (1ull << 20)
#define STEP (2 * MIB) /* the driver's memory is divided into pieces of this size */
#define SMALL 100000u
#define THREADS_MAX 64

struct piece {
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    size_t bytes; /* of the room that it takes */
    char kind;
    unsigned mark; /* its first and last word */
};

static CUcontext context;
static const char *words;
static char kinds[8]; /* of allocations, as the words have them */
static int rounds;
static unsigned seed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER, given = PTHREAD_COND_INITIALIZER;
static size_t room;
static int failures, allocating;
static struct piece waiting[1024]; /* for a thread that frees */
static int waiting_count;

/* ---- room ---- */

static void take_room(size_t bytes)
{
    pthread_mutex_lock(&lock);
    while (room < bytes) {
        pthread_cond_wait(&freed, &lock);
    }
    room -= bytes;
    pthread_mutex_unlock(&lock);
}

static void give_room(size_t bytes)
{
    pthread_mutex_lock(&lock);
    room += bytes;
    pthread_cond_broadcast(&freed);
    pthread_mutex_unlock(&lock);
}

static void failed(const struct piece *piece, CUresult result)
{
    pthread_mutex_lock(&lock);
    if (!failures++) {
        fprintf(stderr, "first failure: kind %c, %zu bytes, error %d\n", piece->kind, piece->bytes,
                (int)result);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- allocations ---- */

static CUresult allocate(struct piece *piece)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    switch (piece->kind) {
    case 's':
        return cuMemAlloc_v2(&piece->at, SMALL);
    case 'v':
        return cuMemCreate(&piece->handle, piece->bytes, &prop, 0);
    case 'a':
        return cuMemAllocAsync(&piece->at, piece->bytes, CU_STREAM_PER_THREAD);
    default:
        return cuMemAlloc_v2(&piece->at, piece->bytes);
    }
}

static size_t last_word(const struct piece *piece)
{
    return piece->kind == 's' ? SMALL - 4 : piece->bytes - 4;
}

/* Memory that two threads have at a time is found out when it is freed. */
static void mark(struct piece *piece)
{
    static unsigned marks;
    piece->mark = __atomic_add_fetch(&marks, 1, __ATOMIC_RELAXED);
    if (piece->kind != 'v') {
        OK(cuMemsetD32_v2(piece->at, piece->mark, 1));
        OK(cuMemsetD32_v2(piece->at + last_word(piece), piece->mark, 1));
    }
}

static void look(const struct piece *piece)
{
    unsigned found[2];
    if (piece->kind == 'v') {
        return;
    }
    OK(cuMemcpyDtoH_v2(&found[0], piece->at, 4));
    OK(cuMemcpyDtoH_v2(&found[1], piece->at + last_word(piece), 4));
    if (found[0] != piece->mark || found[1] != piece->mark) {
        fprintf(stderr, "memory of kind %c was given away twice\n", piece->kind);
        exit(3);
    }
}

static void release(const struct piece *piece)
{
    look(piece);
    if (piece->kind == 'v') {
        OK(cuMemRelease(piece->handle));
    } else {
        OK(cuMemFree_v2(piece->at));
    }
    give_room(piece->bytes);
}

/* To a thread that frees. */
static void hand_over(const struct piece *piece)
{
    pthread_mutex_lock(&lock);
    waiting[waiting_count++] = *piece;
    pthread_cond_signal(&given);
    pthread_mutex_unlock(&lock);
}

static int next_waiting(struct piece *piece)
{
    pthread_mutex_lock(&lock);
    while (!waiting_count && allocating) {
        pthread_cond_wait(&given, &lock);
    }
    int found = waiting_count > 0;
    if (found) {
        *piece = waiting[--waiting_count];
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void *free_all(void *unused)
{
    struct piece piece;
    OK(cuCtxSetCurrent(context));
    while (next_waiting(&piece)) {
        release(&piece);
    }
    return unused;
}

static void one_round(unsigned *random)
{
    struct piece piece = {.kind = kinds[(unsigned)rand_r(random) % strlen(kinds)]};
    unsigned steps = 1 + (unsigned)rand_r(random) % 8;
    piece.bytes = piece.kind == 's' ? STEP : steps * STEP;
    take_room(piece.bytes);
    CUresult result = allocate(&piece);
    if (result != CUDA_SUCCESS) {
        failed(&piece, result);
        give_room(piece.bytes);
        return;
    }
    mark(&piece);
    if (strchr(words, 'o')) {
        hand_over(&piece);
    } else {
        release(&piece);
    }
}

static void *allocate_and_free(void *index)
{
    unsigned random = seed + (unsigned)(size_t)index;
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < rounds; i++) {
        one_round(&random);
    }
    pthread_mutex_lock(&lock);
    allocating--;
    pthread_cond_broadcast(&given);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void pin(void)
{
    CUdeviceptr at;
    CUipcMemHandle shown;
    OK(cuMemAlloc_v2(&at, STEP));
    OK(cuIpcGetMemHandle(&shown, at));
}

int main(int argc, char **argv)
{
    pthread_t threads[2 * THREADS_MAX];
    size_t total;
    int count = argc == 5 ? atoi(argv[2]) : 0;
    if (count < 1 || count > THREADS_MAX) {
        fprintf(stderr, "usage: crowded_threads WORDS THREADS ROUNDS SEED\n");
        return 2;
    }
    words = argv[1];
    rounds = atoi(argv[3]);
    seed = (unsigned)atoi(argv[4]);
    for (const char *word = "lsva"; *word; word++) {
        kinds[strlen(kinds)] = strchr(words, *word) ? *word : 0;
    }
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    if (strchr(words, 'p')) {
        pin();
    }
    OK(cuMemGetInfo_v2(&room, &total));
    room -= room % STEP;
    int freeing = strchr(words, 'o') ? 4 : 0;
    allocating = count;
    for (int i = 0; i < count + freeing; i++) {
        if (pthread_create(&threads[i], NULL, i < count ? allocate_and_free : free_all,
                           (void *)(size_t)i)) {
            return 2;
        }
    }
    for (int i = 0; i < count + freeing; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%d\n", failures);
    return 0;
}
