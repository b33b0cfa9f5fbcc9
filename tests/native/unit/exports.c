/* Allocations that other processes may open: which token a program gets, and when. */
#include "shim/ipc/export.h"

#include <stdlib.h>
#include <string.h>

#include "fake_driver.h"
#include "shim/agent/socket.h"
#include "shim/gate/gate.h"
#include "shim/ipc/pin_again.h"
#include "shim/mem/address_info.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/pin.h"

#include "check.h"

#define BASE 0x10000000ull

static struct extent *made;
static bool agent_accepts;
static unsigned asked;
static void (*meanwhile)(void); /* what another thread does while the agent is asked */

static const uint32_t open_word = MW_LEASE_OPEN;
struct gate gate = {.word = &open_word};
static struct mw_slot own_slot;
__thread struct mw_slot *gate_slot __attribute__((tls_model("initial-exec")));
struct mw_slot *gate_enter_slow(void) { return gate_slot = &own_slot; }
void gate_wait(struct mw_slot *slot) { CHECK(slot == NULL); }
void gate_overflow_leave(struct mw_slot *slot) { CHECK(slot == NULL); }

CUresult pin_range(CUdeviceptr address, size_t size, const char *call)
{
    CHECK(address == BASE && size == 1 && call);
    made->pins++;
    return CUDA_SUCCESS;
}
void unpin_extent(struct extent *extent) { extent->pins--; }
bool address_info_base(const struct extent *extent, CUdeviceptr pointer, CUdeviceptr *base)
{
    *base = extent->base;
    return pointer >= extent->base;
}
bool ipc_pin_again(const struct mw_share *question, void (*answer)(const struct mw_share *))
{
    return question && answer;
}
void ipc_pin_again_after_fork(void) {}

bool agent_send_fds(void *message, size_t bytes, enum mw_type type, const int *fds, uint32_t count)
{
    return message && bytes && type && fds && count;
}
void agent_send(void *message, size_t bytes, enum mw_type type) { CHECK(message && bytes && type); }
void agent_ask(struct agent_request *request, size_t bytes, enum mw_type type)
{
    CHECK(type == MW_EXPORT && bytes == sizeof(request->message.share));
    asked++;
    if (meanwhile) {
        void (*once)(void) = meanwhile;
        meanwhile = NULL;
        once();
    }
    request->message.header.type = agent_accepts ? MW_EXPORT : MW_REFUSED;
}

static void begin(bool accepts)
{
    ipc_export_after_fork();
    agent_accepts = accepts;
    asked = 0;
    made->pins = 0;
}

static void test_the_token_stays_the_same(void)
{
    struct ipc_token one, other;
    begin(true);
    CHECK(ipc_export_token(BASE, &one) == CUDA_SUCCESS && asked == 1 && made->pins == 1);
    CHECK(ipc_export_token(BASE, &other) == CUDA_SUCCESS && asked == 1 && made->pins == 1);
    CHECK(memcmp(&one, &other, sizeof(one)) == 0 && ipc_export_has(&one));
}

static void test_what_the_agent_refuses_is_not_exported(void)
{
    struct ipc_token token;
    begin(false);
    for (unsigned i = 1; i < 4; i++) {
        CHECK(ipc_export_token(BASE, &token) == CUDA_ERROR_OUT_OF_MEMORY && asked == i);
        CHECK(made->pins == 0 && !ipc_export_has(&token));
    }
    agent_accepts = true;
    CHECK(ipc_export_token(BASE, &token) == CUDA_SUCCESS && made->pins == 1);
}

static struct ipc_token theirs;
static CUresult their_result;
static unsigned asked_by_them;

static void another_thread(void)
{
    unsigned before = asked;
    their_result = ipc_export_token(BASE, &theirs);
    asked_by_them = asked - before;
}

static void test_a_thread_gets_no_token_before_the_agent_knows_it(void)
{
    struct ipc_token token;
    begin(true);
    meanwhile = another_thread;
    CHECK(ipc_export_token(BASE, &token) == CUDA_SUCCESS);
    CHECK(their_result == CUDA_SUCCESS && asked_by_them == 1);
    CHECK(memcmp(&token, &theirs, sizeof(token)) == 0 && made->pins == 1);
    begin(false);
    meanwhile = another_thread;
    CHECK(ipc_export_token(BASE, &token) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(their_result == CUDA_ERROR_OUT_OF_MEMORY && made->pins == 0);
}

int main(void)
{
    static struct device device;
    fake_driver();
    made = calloc(1, sizeof(*made) + sizeof(made->chunks[0]));
    if (!made) {
        abort();
    }
    static const struct extent_ops ops = {.kind = EXTENT_PLACED};
    made->ops = &ops;
    made->base = BASE;
    made->span = made->chunks[0].bytes = GRANULE;
    made->chunk_count = 1;
    made->device = &device;
    CHECK(extent_table_insert(made) == 0);
    test_the_token_stays_the_same();
    test_what_the_agent_refuses_is_not_exported();
    test_a_thread_gets_no_token_before_the_agent_knows_it();
    return check_end();
}
