/* What the driver reads in CUDA_VISIBLE_DEVICES, for each text of a program. */
#include "shim/base/visible_list.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "shim/base/environment.h"

extern char **environ;

#define A "GPU-aa000000-0000-0000-0000-000000000001"
#define B "GPU-ab000000-0000-0000-0000-000000000002"
#define C "MIG-ac000000-0000-0000-0000-000000000003"
static const struct visible_gpus gpus = {3, {A, B, C}};

static bool reads(const char *program, const char *wanted)
{
    char text[VISIBLE_TEXT_BYTES];
    visible_list_write(program, &gpus, text);
    if (strcmp(text, wanted) != 0) {
        printf("%s: %s\n", program ? program : "(none)", text);
        return false;
    }
    return true;
}

static void lists(void)
{
    CHECK(reads(NULL, A "," B "," C));
    CHECK(reads("0", A));
    CHECK(reads("2,0", C "," A));
    CHECK(reads(" 1 , 0", B "," A));
    CHECK(reads("", ""));
    CHECK(reads("-1", ""));
    CHECK(reads("-1,0", ""));
    CHECK(reads("0,-1,1", A));
    CHECK(reads("0,3,1", A));
    CHECK(reads("0,", A));
    CHECK(reads("1,no,0", B));
    CHECK(reads("4294967296", ""));
    CHECK(reads("0x1", ""));
    CHECK(reads("GPU-ab", B));
    CHECK(reads("GPU-a", "")); /* of two */
    CHECK(reads("GPU-", ""));
    CHECK(reads("GPU-ff,0", ""));
    CHECK(reads(B ",0", B "," A));
    CHECK(reads(B "0", ""));
    CHECK(reads(C, C));
    CHECK(reads("MIG-ac", C));
    CHECK(reads("0,0", A "," A)); /* the driver judges */
    char many[400] = "0";
    for (size_t i = 0; i < 60; i++) {
        memcpy(many + 1 + 2 * i, ",1", 3);
    }
    char text[VISIBLE_TEXT_BYTES];
    visible_list_write(many, &gpus, text);
    CHECK(strlen(text) == (sizeof(A ",") - 1) * VISIBLE_MAX - 1);
}

static void names(void)
{
    uint8_t uuid[16] = {0xaa, [15] = 1};
    char name[VISIBLE_NAME_BYTES];
    visible_list_name(name, "GPU-", uuid);
    CHECK(strcmp(name, A) == 0);
}

static bool is_set_to(const char *wanted)
{
    const char *found = getenv("SOME");
    return wanted ? found && strcmp(found, wanted) == 0 : !found;
}

static void an_entry(const char *before)
{
    static char ours[] = "SOME=ours";
    struct environment_entry entry = {.ours = ours};
    before ? setenv("SOME", before, 1) : unsetenv("SOME");
    const char *own = getenv("SOME");
    CHECK(environment_replace(&entry));
    CHECK(is_set_to("ours"));
    environment_restore(&entry);
    CHECK(is_set_to(before));
    CHECK(getenv("SOME") == own);

    CHECK(environment_replace(&entry));
    setenv("OTHER", "kept", 1); /* by another thread, meanwhile */
    environment_restore(&entry);
    CHECK(is_set_to(before));
    const char *other = getenv("OTHER");
    CHECK(other && strcmp(other, "kept") == 0);
    unsetenv("OTHER");

    CHECK(environment_replace(&entry));
    setenv("SOME", "new", 1);
    environment_restore(&entry);
    CHECK(is_set_to("new"));
}

int main(void)
{
    lists();
    names();
    an_entry("own");
    an_entry(NULL);
    an_entry("");
    environ = NULL;
    an_entry(NULL);
    return check_end();
}
