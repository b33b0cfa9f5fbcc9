/* What is known of the allocation that an address lies in. */
#ifndef MOIETY_SHIM_MEM_ADDRESS_INFO_H
#define MOIETY_SHIM_MEM_ADDRESS_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

struct extent;

struct address_info {
    CUdeviceptr base;
    size_t bytes;      /* as asked for */
    CUcontext context; /* NULL: of none, as pools' is */
    CUdevice ordinal;
    bool managed;
    bool mapping;          /* the program mapped it itself */
    bool imported;         /* opened: another process made it */
    unsigned handle_types; /* those it may be shared by */
    CUmemoryPool pool;     /* NULL: of none */
    uint64_t number;       /* never used again */
};
/* The allocation that `pointer` points into; false if it is not ours. */
bool address_info_get(CUdeviceptr pointer, struct address_info *info);
/* What to ask the driver of instead of `pointer`: where that lies in a page of ours and in no
 * allocation, an address where there is nothing; else itself. */
CUdeviceptr address_info_as_seen(CUdeviceptr pointer);
/* The same in short. */
bool address_info_range(CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes);
/* With extent_lock held: where the allocation in an extent begins that `pointer` points into; false:
 * there is none. */
bool address_info_base(const struct extent *extent, CUdeviceptr pointer, CUdeviceptr *base);

#endif
