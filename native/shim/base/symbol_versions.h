/* Which form of a driver function a name, a CUDA version and a stream flavour mean.
 *
 * A driver may answer cuGetProcAddress with an address that it does not export under any name. Then
 * only this tells which of our functions stands for it.
 */
#ifndef MOIETY_SHIM_BASE_SYMBOL_VERSIONS_H
#define MOIETY_SHIM_BASE_SYMBOL_VERSIONS_H

#include "shim/base/driver.h"

/* The newest form not newer than `cuda_version`; ENTRY_COUNT when the name is not known. */
enum entry symbol_versions_find(const char *name, int cuda_version, cuuint64_t flags);

#endif
