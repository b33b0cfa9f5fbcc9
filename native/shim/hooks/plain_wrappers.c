/* The driver's functions of cuda/plain_calls.def that must not run without a lease. */
#include "shim/base/driver.h"
#include "shim/gate/thunk.h"

#define WAY(symbol, kind) THUNK(symbol, #symbol, &driver_entries[ENTRY_##symbol], kind);

#define WAY_PASS(symbol)
#define WAY_GATED(symbol) WAY(symbol, THUNK_GATED)
#define WAY_PIN(symbol) WAY(symbol, THUNK_PIN)
#define WAY_AWAIT(symbol) WAY(symbol, THUNK_AWAIT)

#define PLAIN(class, name, symbol, since) WAY_##class(symbol)
#define PLAIN_DS(class, name, symbol, since, since_ptds) \
    WAY_##class(symbol) WAY_##class(symbol##_ptds)
#define PLAIN_SZ(class, name, symbol, since, since_ptsz) \
    WAY_##class(symbol) WAY_##class(symbol##_ptsz)
#include "cuda/plain_calls.def"
