#include "shim/control/debugger_check.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct mark {
    const char *variable;
    const char *text; /* that is in it */
    const char *tool;
};

static const struct mark marks[] = {
    {"NV_COMPUTE_PROFILER_PERFWORKS_DIR", "", "ncu"},
    {"LD_PRELOAD", "libcuda-injection.so", "ncu"},
    {"CUDA_INJECTION64_PATH", "libsanitizer-collection.so", "compute-sanitizer"},
    {"LD_PRELOAD", "libsanitizer-collection.so", "compute-sanitizer"},
    {"NVTX_INJECTION64_PATH", "libsanitizer-collection.so", "compute-sanitizer"},
};

static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

static bool is_traced_by(const char *name)
{
    char text[2048];
    char path[64];
    const char *tracer = NULL;
    if (read_text("/proc/self/status", text, sizeof(text))) {
        tracer = strstr(text, "\nTracerPid:");
    }
    long pid = tracer ? strtol(tracer + strlen("\nTracerPid:"), NULL, 10) : 0;
    if (pid <= 0) {
        return false;
    }
    snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
    return read_text(path, text, sizeof(text)) && strncmp(text, name, strlen(name)) == 0;
}

const char *debugger_check_refused(void)
{
    const char *allowed = getenv("MOIETY_TOOLS");
    if (allowed && strcmp(allowed, "allow") == 0) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        const char *found = getenv(marks[i].variable);
        if (found && *found && strstr(found, marks[i].text)) {
            return marks[i].tool;
        }
    }
    return is_traced_by("cuda-gdb") ? "cuda-gdb" : NULL;
}
