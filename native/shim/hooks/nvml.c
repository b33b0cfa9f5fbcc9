/* What monitoring tools are told inside a share: its memory, not the whole card's.
 *
 * They ask NVML, which knows nothing of shares, often without ever starting CUDA. So a process that
 * asks NVML also asks the agent, in a connection for one question, and does not become a client by
 * that. Where the agent does not answer, or does not own the GPU, NVML's answer stands.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "shim/agent/one_question.h"
#include "shim/base/disable.h"
#include "shim/base/driver.h"
#include "shim/base/safe_string.h"
#include "shim/hooks/nvml.h"
#include "wire/wire.h"

#define EXPORT __attribute__((visibility("default")))
#define PATIENCE_S 1
#define UUID_TEXT 96

enum { OK = 0, FUNCTION_NOT_FOUND = 13 }; /* nvmlReturn_t */

struct memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

struct memory_v2 { /* nvmlMemory_v2_t */
    unsigned version;
    unsigned long long total, reserved, free, used;
};

typedef int memory_fn(void *device, struct memory *memory);
typedef int memory_v2_fn(void *device, struct memory_v2 *memory);
typedef int uuid_fn(void *device, char *uuid, unsigned bytes);

EXPORT memory_fn nvmlDeviceGetMemoryInfo;
EXPORT memory_v2_fn nvmlDeviceGetMemoryInfo_v2;

static void *_Atomic library; /* the handle by which the program found NVML's functions last */

static void *find_wrapper(const char *name)
{
    if (name[0] != 'n') {
        return NULL;
    }
    if (safe_string_equal(name, "nvmlDeviceGetMemoryInfo")) {
        return (void *)nvmlDeviceGetMemoryInfo;
    }
    if (safe_string_equal(name, "nvmlDeviceGetMemoryInfo_v2")) {
        return (void *)nvmlDeviceGetMemoryInfo_v2;
    }
    const struct nvml_wrapper *each = nvml_gpu_wrappers;
    while (each->name && !safe_string_equal(name, each->name)) {
        each++;
    }
    return each->ours;
}

void *nvml_real(const char *name)
{
    void *handle = atomic_load(&library);
    void *found = handle ? real_dlsym()(handle, name) : NULL;
    return found && found != find_wrapper(name) ? found : real_dlsym()(RTLD_NEXT, name);
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* GPU-8f4d...: as bytes. */
static bool uuid_of(void *device, uint8_t bytes[MW_UUID_BYTES])
{
    char text[UUID_TEXT] = {0};
    uuid_fn *ask = (uuid_fn *)nvml_real("nvmlDeviceGetUUID");
    uint32_t digits = 0;
    if (!ask || ask(device, text, sizeof(text)) != OK || strncmp(text, "GPU-", 4) != 0) {
        return false;
    }
    memset(bytes, 0, MW_UUID_BYTES);
    for (const char *c = text + 4; *c && digits < 2 * MW_UUID_BYTES; c++) {
        int digit = digit_of(*c);
        if (digit >= 0) {
            bytes[digits / 2] = (uint8_t)(bytes[digits / 2] << 4 | digit);
            digits++;
        }
    }
    return digits == 2 * MW_UUID_BYTES;
}

/* The memory limit of the program's share on a GPU, and the bytes used of it; false: the program
 * has no share there, or the agent does not answer. */
static bool share_of(void *device, uint64_t *limit, uint64_t *used)
{
    struct mw_attach question = {.header = {MW_LIMIT_QUERY, sizeof(question), 0}};
    struct mw_limit_reply answer;
    if (shim_is_disabled() || !uuid_of(device, question.uuid)) {
        return false;
    }
    bool known =
        one_question_ask(&question, &answer, sizeof(answer), MW_LIMIT_REPLY, PATIENCE_S) == 0;
    if (known) {
        *limit = answer.limit_bytes;
        *used = answer.used_bytes < answer.limit_bytes ? answer.used_bytes : answer.limit_bytes;
    }
    return known;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
    uint64_t limit;
    uint64_t used;
    memory_fn *ask = (memory_fn *)nvml_real("nvmlDeviceGetMemoryInfo");
    int result = ask ? ask(device, memory) : FUNCTION_NOT_FOUND;
    if (result == OK && share_of(device, &limit, &used)) {
        *memory = (struct memory){limit, limit - used, used};
    }
    return result;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory)
{
    uint64_t limit;
    uint64_t used;
    memory_v2_fn *ask = (memory_v2_fn *)nvml_real("nvmlDeviceGetMemoryInfo_v2");
    int result = ask ? ask(device, memory) : FUNCTION_NOT_FOUND;
    if (result == OK && share_of(device, &limit, &used)) {
        *memory = (struct memory_v2){memory->version, limit, 0, limit - used, used};
    }
    return result;
}

bool nvml_is_wrapped(const char *name) { return find_wrapper(name) != NULL; }

void *nvml_wrapped(void *handle, const char *name, void *found)
{
    if (handle != RTLD_DEFAULT && handle != RTLD_NEXT) {
        atomic_store(&library, handle);
    }
    if (found == find_wrapper(name) && !nvml_real(name)) {
        return NULL; /* without the shim the program would not have found it */
    }
    return find_wrapper(name);
}
