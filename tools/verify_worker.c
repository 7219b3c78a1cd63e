/*
 * Child processes of verify; see verify_worker.h.
 */
#include "tools/verify_worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/random.h"
#include "tools/progress.h"

/* ---------------------------------------------------------------------------------------------------------------
 * What a child tells
 * ------------------------------------------------------------------------------------------------------------- */

enum message_kind {
    MESSAGE_BEGUN = 1, /* a case of a kernel, or its preparation */
    MESSAGE_JUDGED,    /* a case */
    MESSAGE_DONE,      /* a kernel */
    MESSAGE_NO_DEVICE, /* text tells why */
};

struct message {
    enum message_kind kind;
    size_t kernel;
    char text[512]; /* the shape; why there is no device */
    struct kernel_result result;
    struct case_result one; /* of a case that was judged */
    double seconds;         /* that it took */
};

typedef bool (*send_fn)(const struct message *message, void *user);

uint64_t worker_kernel_seed(uint64_t seed, const char *spec)
{
    for (const char *at = spec; *at != 0; at++) {
        seed = random_hash(seed, (unsigned char)*at);
    }
    return seed;
}

static void result_add(struct kernel_result *total, const struct case_result *one, const char *shape)
{
    total->cases++;
    total->sampled += one->sampled ? 1 : 0;
    total->elements += one->elements;
    total->at_kinks += one->at_kinks;
    total->excused += one->excused;
    if (one->ratio >= total->ratio) {
        total->max_error = one->max_error;
        total->bound = one->bound;
        total->ratio = one->ratio;
    }
    total->frobenius = one->frobenius > total->frobenius ? one->frobenius : total->frobenius;
    if (!one->good) {
        total->failed++;
        if (total->good) {
            total->good = false;
            snprintf(total->message, sizeof total->message, "%s: %s", shape, one->message);
        }
    }
}

/* With what is known of the kernel so far, for the case that this was the last word. */
static bool tell_begun(size_t kernel, const char *shape, const struct kernel_result *so_far, send_fn send, void *user)
{
    struct message message = {.kind = MESSAGE_BEGUN, .kernel = kernel, .result = *so_far};
    snprintf(message.text, sizeof message.text, "%s", shape);
    return send(&message, user);
}

static bool tell_judged(size_t kernel, const char *shape, const struct kernel_result *so_far,
                        const struct case_result *one, double seconds, send_fn send, void *user)
{
    struct message message = {
        .kind = MESSAGE_JUDGED, .kernel = kernel, .result = *so_far, .one = *one, .seconds = seconds};
    snprintf(message.text, sizeof message.text, "%s", shape);
    return send(&message, user);
}

/*
 * By the canonical text, which is what reports show: with it a case is repeated, however the spec was written. Without the words that a report may
 * have more or less of than the matrix, as they follow from the device.
 */
static uint64_t data_seed(uint64_t seed, const gdpa_spec *spec, const char *text)
{
    char canonical[512];
    gdpa_spec plain = *spec;
    plain.arch = 0;
    plain.family = GDPA_FAMILY_DEFAULT;
    bool good = gdpa_spec_format(&plain, canonical, sizeof canonical, NULL) == GDPA_OK;
    return worker_kernel_seed(seed, good ? canonical : text);
}

/* One case after the other; false when the device is lost. */
static bool cases_run(const struct worker_plan *plan, size_t kernel, const gdpa_spec *spec, struct case_pool *pool,
                      struct kernel_result *total, send_fn send, void *user)
{
    uint64_t seed = data_seed(plan->options.seed, spec, plan->kernels[kernel].spec);
    for (int row = 0; shapes[row].name != NULL; row++) {
        if ((plan->kernels[kernel].shapes >> row & 1) == 0) {
            continue;
        }
        if (!tell_begun(kernel, shapes[row].name, total, send, user)) {
            return false;
        }
        double start = clock_seconds();
        struct verify_case made;
        struct run_options options = plan->options;
        options.seed = random_hash(seed, (uint64_t)row);
        struct case_result one = {.good = false};
        if (case_make(&made, spec, &shapes[row], options.seed, pool, one.message, sizeof one.message)) {
            one = case_run(plan->device, &made, &options);
            case_free(&made);
        }
        result_add(total, &one, shapes[row].name);
        if (!tell_judged(kernel, shapes[row].name, total, &one, clock_seconds() - start, send, user) || one.lost) {
            return false;
        }
    }
    return true;
}

/* Runs kernels from `first` on and tells what comes of them; ends early when the device is lost or nobody listens. */
static void child_run(const struct worker_plan *plan, size_t first, send_fn send, void *user)
{
    const struct verify_device *device = plan->device;
    struct case_pool pool = {.elements = {NULL, NULL}};
    if (!device->open(device->self)) {
        struct message message = {.kind = MESSAGE_NO_DEVICE};
        snprintf(message.text, sizeof message.text, "%s", device->why(device->self));
        send(&message, user);
        return;
    }
    bool usable = true;
    for (size_t kernel = first; usable && kernel < plan->count; kernel++) {
        struct message message = {.kind = MESSAGE_DONE, .kernel = kernel};
        struct kernel_result *result = &message.result;
        double start = clock_seconds();
        gdpa_spec spec;
        result->good = true;
        snprintf(result->gpu, sizeof result->gpu, "%s", device->gpu);
        snprintf(result->slug, sizeof result->slug, "%s", device->slug);
        snprintf(result->driver, sizeof result->driver, "%s", device->driver);
        device->describe(device->self, plan->kernels[kernel].spec, &result->facts);
        usable = tell_begun(kernel, "", result, send, user);
        if (!usable) {
            break;
        }
        if (!device->prepare(device->self, plan->kernels[kernel].spec, &spec, &result->facts)) {
            result->good = false;
            snprintf(result->message, sizeof result->message, "%s", device->why(device->self));
        } else {
            usable = cases_run(plan, kernel, &spec, &pool, result, send, user);
        }
        result->seconds = clock_seconds() - start;
        usable = send(&message, user) && usable;
    }
    case_pool_deinit(&pool);
}

/* ---------------------------------------------------------------------------------------------------------------
 * In this process
 * ------------------------------------------------------------------------------------------------------------- */

struct local {
    const struct worker_plan *plan;
    enum worker_end end;
    char *why;
    size_t capacity;
    size_t next; /* kernel that was not done yet */
};

/* What comes of a message; false: the run ends. */
static bool message_take(const struct worker_plan *plan, const struct message *message, struct local *local)
{
    switch (message->kind) {
    case MESSAGE_BEGUN:
        if (plan->begun != NULL) {
            plan->begun(message->kernel, message->text, plan->user);
        }
        break;
    case MESSAGE_JUDGED:
        if (plan->judged != NULL) {
            plan->judged(message->kernel, message->text, &message->one, message->seconds, plan->user);
        }
        break;
    case MESSAGE_DONE:
        local->next = message->kernel + 1;
        if (!plan->done(message->kernel, &message->result, plan->user)) {
            local->end = WORKER_STOPPED;
            return false;
        }
        break;
    default:
        snprintf(local->why, local->capacity, "%s", message->text);
        local->end = WORKER_NO_DEVICE;
        return false;
    }
    if (plan->interrupted != NULL && plan->interrupted()) {
        local->end = WORKER_INTERRUPTED;
        return false;
    }
    return true;
}

static bool send_here(const struct message *message, void *user)
{
    struct local *local = user;
    return message_take(local->plan, message, local);
}

/* ---------------------------------------------------------------------------------------------------------------
 * In a child
 * ------------------------------------------------------------------------------------------------------------- */

struct child {
    pid_t process;
    int pipe;      /* its messages */
    size_t kernel; /* in work */
    char shape[64];
    struct kernel_result so_far;
};

static bool send_to_parent(const struct message *message, void *user)
{
    const int *pipe = user;
    const char *bytes = (const char *)message;
    size_t done = 0;
    while (done < sizeof *message) {
        ssize_t written = write(*pipe, bytes + done, sizeof *message - done);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        done += written > 0 ? (size_t)written : 0;
    }
    return true;
}

static bool child_start(const struct worker_plan *plan, size_t first, struct child *child)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return false;
    }
    fflush(NULL);
    pid_t parent = getpid();
    pid_t process = fork();
    if (process < 0) {
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    if (process == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) {
            close(ends[0]);
            child_run(plan, first, send_to_parent, &ends[1]);
        }
        _exit(0);
    }
    setpgid(process, process);
    close(ends[1]);
    *child = (struct child){.process = process, .pipe = ends[0], .kernel = first};
    return true;
}

/* Ends what is left of a child. Its status, or -1 when even a kill does not end it (the driver holds it). */
static int child_end(struct child *child, bool kill_it)
{
    int status = -1;
    pid_t ended = 0;
    if (kill_it) {
        kill(-child->process, SIGKILL);
        kill(child->process, SIGKILL);
    }
    for (int i = 0; i < 1000 && ended == 0; i++) {
        ended = waitpid(child->process, &status, WNOHANG);
        if (ended == 0) {
            struct timespec pause = {.tv_nsec = 10000000};
            nanosleep(&pause, NULL);
        }
        if (ended == 0 && i == 500) {
            kill(-child->process, SIGKILL);
        }
    }
    close(child->pipe);
    return ended == child->process ? status : -1;
}

enum wait_end { WAIT_MESSAGE, WAIT_CLOSED, WAIT_LATE, WAIT_INTERRUPTED };

/* Reads a whole message, if one comes in time. */
static enum wait_end message_wait(const struct worker_plan *plan, const struct child *child, struct message *message)
{
    double until = clock_seconds() + plan->timeout;
    size_t done = 0;
    while (done < sizeof *message) {
        if (plan->interrupted != NULL && plan->interrupted()) {
            return WAIT_INTERRUPTED;
        }
        double left = until - clock_seconds();
        if (left <= 0) {
            return WAIT_LATE;
        }
        struct pollfd wanted = {.fd = child->pipe, .events = POLLIN};
        int ready = poll(&wanted, 1, left > 1 ? 1000 : (int)(left * 1000) + 1);
        if (ready <= 0) {
            continue;
        }
        ssize_t got = read(child->pipe, (char *)message + done, sizeof *message - done);
        if (got == 0) {
            return WAIT_CLOSED;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return WAIT_MESSAGE;
}

/* What is reported of a kernel whose child did not live to tell. */
static struct kernel_result result_of_loss(const struct worker_plan *plan, const struct child *child, bool late,
                                           int status)
{
    struct kernel_result result = child->so_far;
    result.good = false;
    result.cases++;
    result.failed++;
    const char *shape = child->shape[0] != 0 ? child->shape : "preparing the kernel";
    if (late) {
        snprintf(result.message, sizeof result.message, "%s: did not end within %g s (a hang); its process was killed",
                 shape, plan->timeout);
    } else if (status != -1 && WIFSIGNALED(status)) {
        snprintf(result.message, sizeof result.message, "%s: the process was ended by signal %d (%s)", shape,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        snprintf(result.message, sizeof result.message, "%s: the process ended without a result", shape);
    }
    return result;
}

/* Takes messages until the child is done with its work (true, when it ended in the middle of no kernel) or gone. */
static bool child_listen(const struct worker_plan *plan, struct child *child, struct local *local)
{
    for (;;) {
        struct message message;
        enum wait_end end = message_wait(plan, child, &message);
        if (end == WAIT_MESSAGE) {
            child->kernel = message.kernel;
            snprintf(child->shape, sizeof child->shape, "%.60s", message.kind == MESSAGE_BEGUN ? message.text : "");
            child->so_far = message.result;
            if (!message_take(plan, &message, local)) {
                child_end(child, true);
                return false;
            }
            continue;
        }
        if (end == WAIT_INTERRUPTED) {
            child_end(child, true);
            local->end = WORKER_INTERRUPTED;
            return false;
        }
        int status = child_end(child, end == WAIT_LATE);
        bool told_all = end == WAIT_CLOSED && local->next > child->kernel;
        if (told_all) {
            return true;
        }
        struct kernel_result result = result_of_loss(plan, child, end == WAIT_LATE, status);
        local->next = child->kernel + 1;
        if (!plan->done(child->kernel, &result, plan->user)) {
            local->end = WORKER_STOPPED;
            return false;
        }
        return true;
    }
}

enum worker_end workers_run(const struct worker_plan *plan, char *why, size_t capacity)
{
    struct local local = {.plan = plan, .end = WORKER_ALL_DONE, .why = why, .capacity = capacity};
    if (plan->in_process) {
        child_run(plan, 0, send_here, &local);
        if (local.end == WORKER_ALL_DONE && local.next < plan->count) {
            snprintf(why, capacity, "the device was lost; %zu of %zu kernels were not run", plan->count - local.next,
                     plan->count);
            local.end = WORKER_NO_DEVICE;
        }
        return local.end;
    }
    while (local.next < plan->count) {
        struct child child;
        if (!child_start(plan, local.next, &child)) {
            snprintf(why, capacity, "cannot start a process: %s", strerror(errno));
            return WORKER_NO_PROCESS;
        }
        if (!child_listen(plan, &child, &local)) {
            break;
        }
    }
    return local.end;
}
