/* NVML: NVLink connections. The profile's `nvlink` GPUs with neighbouring numbers are linked with each
 * other, and the links of a GPU go to its peers by turns. */
#include "simgpu/nvml/device.h"

#define LINKS_MAX 18u
#define LINKS_USUAL 12u

/* Finds the GPU at the other end of a link. NVML_ERROR_NOT_SUPPORTED: there are no links. */
static nvmlReturn_t peer_of(unsigned gpu, unsigned link, unsigned *peer)
{
    const struct sg_profile *profile = &sg_state->machine.profile[gpu];
    unsigned group = profile->nvlink, links = profile->nvlinks ? profile->nvlinks : LINKS_USUAL;
    if (group < 2) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    if (link >= links || link >= LINKS_MAX) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned first = gpu - gpu % group, at = link % (group - 1);
    *peer = first + at + (first + at >= gpu);
    return NVML_SUCCESS;
}

NVML_DEVICE(nvmlDeviceGetNvLinkState, unsigned int link, unsigned int *is_active)
{
    unsigned peer;
    NVML_ENTER();
    nvmlReturn_t found = peer_of(gpu, link, &peer);
    if (!found) {
        *is_active = peer < sg_state->machine.count;
    }
    return found;
}

NVML_DEVICE(nvmlDeviceGetNvLinkRemotePciInfo_v2, unsigned int link, nvmlPciInfo_t *info)
{
    unsigned peer;
    NVML_ENTER();
    nvmlReturn_t found = peer_of(gpu, link, &peer);
    if (!found && peer >= sg_state->machine.count) {
        return NVML_ERROR_NOT_SUPPORTED; /* as of a link that is down */
    }
    if (!found) {
        sg_nvml_pci(peer, info);
    }
    return found;
}
