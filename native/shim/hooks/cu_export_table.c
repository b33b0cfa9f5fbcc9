/* Tables of functions that have no names: what NVIDIA's own libraries use beside the documented
 * calls.
 *
 * They are handed through, because a library that asks for one cannot do without it. The shim does
 * not see the calls through a table, so a table that is not known to be harmless pins its caller.
 */
#include <stdio.h>
#include <string.h>

#include "shim/base/driver.h"
#include "shim/gate/unknown_calls.h"

/* Beginnings of the UUIDs of tables that NVIDIA's runtimes 11 to 13 fetch at their start. None of
 * them makes device memory that moves: code that is loaded through the first is charged as what a
 * context takes. */
static const unsigned char harmless[][4] = {
    {0x6b, 0xd5, 0xfb, 0x6c}, /* the runtime's own calls: primary context, modules */
    {0xa0, 0x94, 0x79, 0x8c}, /* tools */
    {0x42, 0xd8, 0x5a, 0x81}, /* tools */
    {0xc6, 0x93, 0x33, 0x6e}, /* what is kept with a context */
    {0x26, 0x3e, 0x88, 0x60}, /* checks of a context */
    {0xd4, 0x08, 0x20, 0x55}, /* whether driver and runtime are NVIDIA's */
    {0x21, 0x31, 0x8c, 0x60}, /* fetched from 12.9 on; not seen in use */
    {0xf8, 0xcf, 0xf9, 0x51}, /* fetched from 13 on; not seen in use */
};

CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    static const char prefix[] = "export table ";
    char name[sizeof(prefix) + 2 * sizeof(id->bytes)];
    if (!driver_load()) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    CUresult result = DRIVER(cuGetExportTable)(table, id);
    if (result != CUDA_SUCCESS || !id) {
        return result;
    }
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
        if (!memcmp(id->bytes, harmless[i], sizeof(harmless[i]))) {
            return result;
        }
    }
    memcpy(name, prefix, sizeof(prefix));
    for (size_t i = 0; i < sizeof(id->bytes); i++) {
        snprintf(name + sizeof(prefix) - 1 + 2 * i, 3, "%02x", (unsigned char)id->bytes[i]);
    }
    unknown_call_used(name);
    return result;
}
