#include "simgpu/exec/module.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/handles.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/chunk.h"

#define PREFIX "simgpu_kernel_"
#define EM_CUDA_ 190
#define FATBIN_WRAPPER 0x466243b1u
#define FATBIN 0xba55ed50u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* cuModuleLoadData gets no size: the ELF headers give it. Returns 0 if the image is not one of ours. */
static size_t image_bytes(const unsigned char *image)
{
    const Elf64_Ehdr *header = (const void *)image;
    uint64_t end = sizeof *header, part;
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_type != ET_DYN || header->e_machine != EM_X86_64) {
        return 0;
    }
    part = header->e_shoff + (uint64_t)header->e_shnum * header->e_shentsize;
    end = part > end ? part : end;
    part = header->e_phoff + (uint64_t)header->e_phnum * header->e_phentsize;
    end = part > end ? part : end;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        const Elf64_Phdr *segment =
            (const void *)(image + header->e_phoff + (size_t)i * header->e_phentsize);
        part = segment->p_offset + segment->p_filesz;
        end = part > end ? part : end;
    }
    return end;
}

static CUresult what_is_it(const void *image)
{
    const unsigned char *bytes = image;
    uint32_t word;
    memcpy(&word, image, sizeof word);
    if (word == FATBIN_WRAPPER || word == FATBIN) {
        return CUDA_ERROR_NO_BINARY_FOR_GPU; /* made for real GPUs */
    }
    if (memcmp(bytes, ELFMAG, SELFMAG) == 0) {
        return ((const Elf64_Ehdr *)image)->e_machine == EM_CUDA_ ? CUDA_ERROR_NO_BINARY_FOR_GPU
                                                                  : CUDA_SUCCESS;
    }
    while (*bytes == ' ' || *bytes == '\n' || *bytes == '\t' || *bytes == '\r') {
        bytes++;
    }
    if (strncmp((const char *)bytes, "//", 2) == 0 ||
        strncmp((const char *)bytes, ".version", 8) == 0) {
        return CUDA_ERROR_NO_BINARY_FOR_GPU; /* PTX: there is no compiler here */
    }
    return CUDA_ERROR_INVALID_IMAGE;
}

/* Reads the dynamic symbols: kernels and variables, with the sizes of the variables. */
static void read_symbols(CUmodule module, const unsigned char *image, size_t bytes)
{
    const Elf64_Ehdr *header = (const void *)image;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr *section =
            (const void *)(image + header->e_shoff + (size_t)i * header->e_shentsize);
        if (section->sh_type != SHT_DYNSYM || section->sh_link >= header->e_shnum ||
            section->sh_entsize == 0 || section->sh_offset + section->sh_size > bytes) {
            continue;
        }
        const Elf64_Shdr *strings = (const void *)(image + header->e_shoff +
                                                   (size_t)section->sh_link * header->e_shentsize);
        if (strings->sh_offset + strings->sh_size > bytes) {
            continue;
        }
        size_t count = section->sh_size / section->sh_entsize;
        module->names = malloc(strings->sh_size + 1);
        module->symbols = calloc(count, sizeof *module->symbols);
        if (!module->names || !module->symbols) {
            return;
        }
        memcpy(module->names, image + strings->sh_offset, strings->sh_size);
        module->names[strings->sh_size] = '\0';
        for (size_t s = 0; s < count; s++) {
            const Elf64_Sym *symbol =
                (const void *)(image + section->sh_offset + s * section->sh_entsize);
            if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_shndx == SHN_UNDEF ||
                symbol->st_name >= strings->sh_size) {
                continue;
            }
            const char *name = module->names + symbol->st_name;
            int is_kernel = strncmp(name, PREFIX, strlen(PREFIX)) == 0;
            module->symbols[module->symbol_count++] = (struct sg_symbol){
                is_kernel ? name + strlen(PREFIX) : name, symbol->st_size, is_kernel};
            module->function_count += (unsigned)is_kernel;
        }
        return;
    }
}

/* A library has no context: its code is charged to the device of the thread that loads it, if it has one. */
static CUresult charge(CUmodule module)
{
    CUcontext context = module->context ? module->context : sg_context_current();
    if (!context) {
        return CUDA_SUCCESS;
    }
    uint64_t bytes = sg_profile_of(context->gpu)->module_bytes;
    CUresult result = bytes ? sg_charge_context(context->gpu, (int64_t)bytes) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        module->charged_bytes = bytes;
        module->charged_gpu = context->gpu;
    }
    return result;
}

/* A new path to an open file. dlopen takes a known path for a known library, and file descriptors are
 * reused, so the path encodes a running number as slashes with and without dots. It contains the pid,
 * because a debugger opens it too, and /proc/self would be the debugger. */
static void path_of(int file, char path[128])
{
    static uint32_t loaded;
    uint32_t number = __atomic_add_fetch(&loaded, 1, __ATOMIC_RELAXED);
    char *at = path + sprintf(path, "/proc/%d/fd", (int)getpid());
    for (int bit = 0; bit < 32; bit++) {
        at += sprintf(at, "%s", number >> bit & 1 ? "/." : "/");
    }
    sprintf(at, "/%d", file);
}

CUresult sg_module_load(CUmodule *out, const void *image, CUcontext context)
{
    char path[128];
    if (!out || !image) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(what_is_it(image));
    size_t bytes = image_bytes(image);
    if (!bytes) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    int file = (int)syscall(SYS_memfd_create, "simgpu-module", 1u /* MFD_CLOEXEC */);
    if (file < 0) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(file, (const char *)image + done, bytes - done);
        if (n <= 0) {
            close(file);
            return CUDA_ERROR_INVALID_IMAGE; /* the headers describe more than the file has */
        }
        done += (size_t)n;
    }
    path_of(file, path);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    close(file);
    CUmodule module = object ? calloc(1, sizeof *module) : NULL;
    if (!module) {
        if (object) {
            dlclose(object);
        }
        return CUDA_ERROR_INVALID_IMAGE;
    }
    module->context = context;
    module->object = object;
    CUresult charged = charge(module);
    if (charged != CUDA_SUCCESS) {
        dlclose(object);
        free(module);
        return charged;
    }
    read_symbols(module, image, bytes);
    sg_handle_add(module, SG_MODULE);
    *out = module;
    return CUDA_SUCCESS;
}

CUresult sg_module_load_file(CUmodule *out, const char *path, CUcontext context)
{
    struct stat status;
    if (!path) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return CUDA_ERROR_FILE_NOT_FOUND;
    }
    CUresult result = CUDA_ERROR_INVALID_IMAGE;
    if (fstat(file, &status) == 0 && status.st_size > (off_t)sizeof(Elf64_Ehdr)) {
        /* One page more than the file: text images end with a zero byte. */
        size_t bytes = (size_t)status.st_size + 1;
        char *image = calloc(1, bytes);
        if (image && pread(file, image, (size_t)status.st_size, 0) == (ssize_t)status.st_size) {
            result = sg_module_load(out, image, context);
        }
        free(image);
    }
    close(file);
    return result;
}

CUresult sg_module_function(CUfunction *out, CUmodule module, const char *name)
{
    char symbol[sizeof PREFIX + sizeof((CUfunction)0)->name];
    if (!out || !name || strlen(name) >= sizeof((CUfunction)0)->name) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    CUfunction function = module->functions;
    while (function && strcmp(function->name, name) != 0) {
        function = function->next;
    }
    if (!function) {
        snprintf(symbol, sizeof symbol, PREFIX "%s", name);
        const struct simgpu_kernel *kernel = dlsym(module->object, symbol);
        if (kernel && kernel->abi == SIMGPU_KERNEL_ABI && kernel->params <= SIMGPU_PARAMS_MAX) {
            function = calloc(1, sizeof *function);
        }
        if (function) {
            function->module = module;
            function->kernel = kernel;
            memcpy(function->name, name, strlen(name) + 1);
            for (uint32_t i = 0, at = 0; i < kernel->params; i++) {
                uint32_t size = kernel->size[i],
                         alignment = size && !(size & (size - 1)) && size <= 16 ? size : 8;
                at = (at + alignment - 1) / alignment * alignment;
                function->offset[i] = at;
                at += size;
                function->params_bytes = at;
            }
            function->next = module->functions;
            module->functions = function;
            sg_handle_add(function, SG_FUNCTION);
        }
    }
    pthread_mutex_unlock(&lock);
    *out = function;
    return function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult sg_module_global(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    for (unsigned i = 0; name && i < module->symbol_count; i++) {
        if (module->symbols[i].is_kernel || strcmp(module->symbols[i].name, name) != 0) {
            continue;
        }
        uint64_t at = (uint64_t)(uintptr_t)dlsym(module->object, name);
        if (!at) {
            break;
        }
        sg_ranges_lock();
        if (!sg_ranges_find(at)) { /* it is an address of the device from now on */
            struct sg_range *range = calloc(1, sizeof *range);
            *range = (struct sg_range){.base = at,
                                       .size = module->symbols[i].size,
                                       .kind = SG_RANGE_GLOBAL,
                                       .gpu = module->context ? module->context->gpu : 0};
            sg_ranges_add(range);
        }
        sg_ranges_unlock();
        if (address) {
            *address = at;
        }
        if (bytes) {
            *bytes = module->symbols[i].size;
        }
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

void sg_module_unload(CUmodule module)
{
    for (unsigned i = 0; i < module->symbol_count; i++) {
        if (module->symbols[i].is_kernel) {
            continue;
        }
        uint64_t at = (uint64_t)(uintptr_t)dlsym(module->object, module->symbols[i].name);
        sg_ranges_lock();
        struct sg_range *range = at ? sg_ranges_find(at) : NULL;
        if (range && range->kind == SG_RANGE_GLOBAL && range->base == at) {
            sg_ranges_remove(range);
        } else {
            range = NULL;
        }
        sg_ranges_unlock();
        free(range);
    }
    for (CUfunction function = module->functions, next; function; function = next) {
        next = function->next;
        sg_handle_remove(function, SG_FUNCTION);
        free(function);
    }
    if (module->charged_bytes) {
        sg_charge_context(module->charged_gpu, -(int64_t)module->charged_bytes);
    }
    dlclose(module->object);
    free(module->symbols);
    free(module->names);
    free(module);
}
