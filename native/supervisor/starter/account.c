#include "supervisor/starter/account.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>

static bool is_among(gid_t group, const gid_t *groups, int count)
{
    for (int i = 0; i < count; i++) {
        if (groups[i] == group) {
            return true;
        }
    }
    return false;
}

/* The groups that the tables give to a user; how many, or a negative errno. */
static int groups_of(const struct passwd *user, gid_t **groups)
{
    int count = 0;
    (void)getgrouplist(user->pw_name, user->pw_gid, NULL, &count);
    gid_t *found = calloc((size_t)count + 1, sizeof *found);
    if (!found) {
        return -ENOMEM;
    }
    if (getgrouplist(user->pw_name, user->pw_gid, found, &count) < 0) {
        free(found);
        return -EAGAIN; /* they have just changed */
    }
    *groups = found;
    return count;
}

/* A user without an entry (of a container, say) may have groups without an entry. */
static int check_unlisted(const struct spec *spec, const gid_t *wanted, int count)
{
    for (int i = 0; i < count; i++) {
        if (getgrgid(wanted[i])) {
            return -EPERM;
        }
    }
    return getgrgid(spec->gid) ? -EPERM : 0;
}

static int check_groups(const struct spec *spec, const gid_t *wanted, int count)
{
    const struct passwd *user = getpwuid(spec->uid);
    if (!user) {
        return check_unlisted(spec, wanted, count);
    }
    gid_t *allowed = NULL;
    int allowed_count = groups_of(user, &allowed);
    int failed = allowed_count < 0 ? allowed_count : 0;
    if (!failed && !is_among(spec->gid, allowed, allowed_count)) {
        failed = -EPERM;
    }
    for (int i = 0; i < count && !failed; i++) {
        failed = is_among(wanted[i], allowed, allowed_count) ? 0 : -EPERM;
    }
    free(allowed);
    return failed;
}

/* Refuses what a server that was taken over could ask for: to run as root, or in groups that the user is not in. The
 * server's own user runs no workload either: it could change the server. A server that is root itself may ask for
 * all. */
int account_check(const struct spec *spec, uid_t server, const char **wrong)
{
    if (server == 0) {
        return 0;
    }
    *wrong = "uid";
    if (spec->uid == 0 || spec->uid == server) {
        return -EPERM;
    }
    *wrong = "groups";
    gid_t *wanted = NULL;
    int count = spec_groups(spec, &wanted);
    if (count < 0) {
        return count;
    }
    int failed = check_groups(spec, wanted, count);
    free(wanted);
    return failed;
}
