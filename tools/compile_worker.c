/*
 * Workers of warm; see compile_worker.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pipe2, environ */
#endif
#include "tools/compile_worker.h"

#include "tools/limits.h"
#include "tools/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXTS = 5 };

#define INTERRUPT_GRACE 10.0 /* seconds that a kernel in work has after an interrupt */
#define LOOK_MS 200          /* between looks for one */

/* An answer as it goes through the pipe; texts follow in order, without their 0. Both ends are the same program. */
struct wire {
    int status, hit, registers, spill_bytes, smem_dynamic, threads, binary_bytes;
    double generate_ms, compile_ms;
    unsigned lengths[TEXTS]; /* + 1; 0: none */
};

struct compile_worker {
    pid_t process;
    int to, from; /* pipes */
    struct compile_worker *next;
};

static void outcome_texts(struct outcome *outcome, char **texts[TEXTS])
{
    texts[0] = &outcome->error;
    texts[1] = &outcome->spec;
    texts[2] = &outcome->name;
    texts[3] = &outcome->key;
    texts[4] = &outcome->target;
}

void outcome_deinit(struct outcome *outcome)
{
    char **texts[TEXTS];
    outcome_texts(outcome, texts);
    for (int i = 0; i < TEXTS; i++) {
        free(*texts[i]);
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * The worker's side
 * ------------------------------------------------------------------------------------------------------------- */

static void compile_here(struct tool *tool, const char *text, struct outcome *outcome)
{
    gdpa_ctx *ctx = tool_context(tool);
    gdpa_spec spec = GDPA_SPEC_INIT;
    gdpa_kernel *kernel = NULL;
    gdpa_kernel_info info = {.size = sizeof info};
    memset(outcome, 0, sizeof *outcome);
    outcome->status = ctx == NULL ? tool->ctx_status : gdpa_spec_parse(text, &spec);
    if (outcome->status == GDPA_OK) {
        outcome->status = gdpa_kernel_get(ctx, &spec, &kernel);
    }
    if (outcome->status == GDPA_OK) {
        outcome->status = gdpa_kernel_info_get(kernel, &info);
    }
    if (outcome->status != GDPA_OK) {
        outcome->error = tool_strdup(gdpa_last_error());
        gdpa_kernel_release(kernel);
        return;
    }
    outcome->hit = strcmp(info.origin, "compiled") != 0;
    outcome->spec = tool_strdup(info.spec);
    outcome->name = tool_strdup(info.name);
    outcome->key = tool_strdup(info.key);
    outcome->target = tool_strdup(info.target);
    outcome->registers = info.registers;
    outcome->spill_bytes = info.spill_bytes;
    outcome->smem_dynamic = info.smem_dynamic;
    outcome->threads = info.threads;
    outcome->binary_bytes = info.binary_bytes;
    outcome->generate_ms = info.generate_ms;
    outcome->compile_ms = info.compile_ms;
    gdpa_kernel_release(kernel);
}

static bool write_all(int file, const void *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t count = write(file, (const char *)bytes + done, size - done);
        if (count < 0 && errno != EINTR) {
            return false;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return true;
}

static bool answer_write(int file, struct outcome *outcome)
{
    char **texts[TEXTS];
    struct wire wire;
    memset(&wire, 0, sizeof wire);
    wire.status = (int)outcome->status;
    wire.hit = outcome->hit;
    wire.registers = outcome->registers;
    wire.spill_bytes = outcome->spill_bytes;
    wire.smem_dynamic = outcome->smem_dynamic;
    wire.threads = outcome->threads;
    wire.binary_bytes = outcome->binary_bytes;
    wire.generate_ms = outcome->generate_ms;
    wire.compile_ms = outcome->compile_ms;
    outcome_texts(outcome, texts);
    for (int i = 0; i < TEXTS; i++) {
        wire.lengths[i] = *texts[i] == NULL ? 0 : (unsigned)strlen(*texts[i]) + 1;
    }
    bool good = write_all(file, &wire, sizeof wire);
    for (int i = 0; i < TEXTS && good; i++) {
        good = wire.lengths[i] == 0 || write_all(file, *texts[i], wire.lengths[i] - 1);
    }
    return good;
}

/* The parent may be killed: then nobody reads the answer, and a compile that never ends would stay for ever. */
static atomic_bool at_work;

static void *watch_parent(void *nothing)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = 0}; /* POLLHUP comes unasked */
    while (poll(&input, 1, -1) <= 0 || (input.revents & (POLLHUP | POLLERR)) == 0) {
    }
    if (atomic_load(&at_work)) {
        _exit(EXIT_INTERRUPTED);
    }
    return nothing;
}

static void parent_watch_begin(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch_parent, NULL) == 0) {
        pthread_detach(thread);
    }
}

/* A variable that is not legal was refused with the context, where there is one; else it counts for nothing. */
int compile_jobs(const struct tool *tool)
{
    const char *variable = getenv("GDPAJIT_JOBS");
    long jobs = variable != NULL ? strtol(variable, NULL, 10) : 0;
    jobs = args_integer(&tool->args, "jobs", jobs);
    return jobs > 0 ? (int)jobs : limits_default_jobs();
}

int compile_worker_main(struct tool *tool)
{
    char *line = NULL;
    size_t capacity = 0;
    signal(SIGINT, SIG_IGN); /* from the terminal: the parent decides what becomes of the kernel in work */
    const int answers = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* what a library prints does not get between the answers */
    bool good = answers >= 0;
    tool->is_worker = true;
    parent_watch_begin();
    while (good && getline(&line, &capacity, stdin) > 0) {
        struct outcome outcome;
        line[strcspn(line, "\n")] = '\0';
        atomic_store(&at_work, true);
        compile_here(tool, line, &outcome);
        atomic_store(&at_work, false);
        good = answer_write(answers, &outcome);
        outcome_deinit(&outcome);
    }
    free(line);
    return good ? EXIT_DONE : EXIT_SOME_FAILED;
}

/* ---------------------------------------------------------------------------------------------------------------
 * The parent's side
 * ------------------------------------------------------------------------------------------------------------- */

void compile_crew_init(struct compile_crew *crew, struct tool *tool)
{
    crew->tool = tool;
    crew->idle = NULL;
    crew->peak_bytes = 0;
    pthread_mutex_init(&crew->lock, NULL);
    signal(SIGPIPE, SIG_IGN); /* a worker that died is seen by its end of file */
}

static pid_t program_spawn(const struct tool *tool, int input, int output)
{
    posix_spawn_file_actions_t actions;
    const char *const cache_dir = args_text(&tool->args, "cache-dir", NULL);
    const char *words[6] = {"gdpa-jit", "--compile-worker"};
    int count = 2;
    if (cache_dir != NULL) {
        words[count++] = "--cache-dir";
        words[count++] = cache_dir;
    }
    if (tool->quiet || tool->verbose > 0) {
        words[count++] = tool->quiet ? "-q" : tool->verbose > 1 ? "-vv" : "-v";
    }
    pid_t process = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    /* It takes words that it does not change. */
    const int error = posix_spawn(&process, "/proc/self/exe", &actions, NULL, (char *const *)(uintptr_t)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error == 0 ? process : -1;
}

/* NULL when the system gives no process. */
static struct compile_worker *worker_start(const struct tool *tool)
{
    int to[2] = {-1, -1}, from[2] = {-1, -1};
    pid_t process = -1;
    if (pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0) {
        process = program_spawn(tool, to[0], from[1]);
    }
    if (to[0] >= 0) {
        close(to[0]);
    }
    if (from[1] >= 0) {
        close(from[1]);
    }
    if (process < 0) {
        close(to[1]);
        close(from[0]);
        return NULL;
    }
    struct compile_worker *worker = tool_alloc(sizeof *worker);
    *worker = (struct compile_worker){.process = process, .to = to[1], .from = from[0]};
    return worker;
}

/* The wait status. */
static int worker_end(struct compile_crew *crew, struct compile_worker *worker, bool kill_it)
{
    int status = 0;
    struct rusage usage;
    memset(&usage, 0, sizeof usage);
    close(worker->to);
    if (kill_it) {
        kill(worker->process, SIGKILL);
    }
    while (wait4(worker->process, &status, 0, &usage) < 0 && errno == EINTR) {
    }
    close(worker->from);
    free(worker);
    const long long peak = (long long)usage.ru_maxrss * 1024;
    pthread_mutex_lock(&crew->lock);
    crew->peak_bytes = peak > crew->peak_bytes ? peak : crew->peak_bytes;
    pthread_mutex_unlock(&crew->lock);
    return status;
}

void compile_crew_deinit(struct compile_crew *crew)
{
    while (crew->idle != NULL) {
        struct compile_worker *next = crew->idle->next;
        worker_end(crew, crew->idle, false);
        crew->idle = next;
    }
    pthread_mutex_destroy(&crew->lock);
}

enum answer_end { ANSWER_WHOLE, ANSWER_LATE, ANSWER_INTERRUPTED, ANSWER_ENDED };

/* When an answer is not waited for any more. */
struct patience {
    double until;       /* 0: for ever */
    double interrupted; /* when that was seen; 0: it was not */
};

static bool patience_ends(struct patience *patience, enum answer_end *end)
{
    const double now = clock_seconds();
    if (patience->until > 0 && now >= patience->until) {
        *end = ANSWER_LATE;
        return true;
    }
    if (tool_interrupted() && patience->interrupted <= 0) {
        patience->interrupted = now;
    }
    if (patience->interrupted > 0 && now >= patience->interrupted + INTERRUPT_GRACE) {
        *end = ANSWER_INTERRUPTED;
        return true;
    }
    return false;
}

static enum answer_end bytes_read(int file, void *bytes, size_t size, struct patience *patience)
{
    size_t done = 0;
    enum answer_end end = ANSWER_WHOLE;
    while (done < size) {
        struct pollfd ready = {.fd = file, .events = POLLIN};
        if (patience_ends(patience, &end)) {
            return end;
        }
        const double left = (patience->until - clock_seconds()) * 1e3;
        const int wait_ms = patience->until > 0 && left < LOOK_MS ? (left > 0 ? (int)left + 1 : 0) : LOOK_MS;
        if (poll(&ready, 1, wait_ms) <= 0) {
            continue;
        }
        const ssize_t count = read(file, (char *)bytes + done, size - done);
        if (count == 0 || (count < 0 && errno != EINTR)) {
            return ANSWER_ENDED;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return ANSWER_WHOLE;
}

static enum answer_end answer_read(int file, struct patience *patience, struct outcome *outcome)
{
    struct wire wire;
    char **texts[TEXTS];
    enum answer_end end = bytes_read(file, &wire, sizeof wire, patience);
    memset(outcome, 0, sizeof *outcome);
    if (end != ANSWER_WHOLE) {
        return end;
    }
    outcome->status = (gdpa_status)wire.status;
    outcome->hit = wire.hit != 0;
    outcome->registers = wire.registers;
    outcome->spill_bytes = wire.spill_bytes;
    outcome->smem_dynamic = wire.smem_dynamic;
    outcome->threads = wire.threads;
    outcome->binary_bytes = wire.binary_bytes;
    outcome->generate_ms = wire.generate_ms;
    outcome->compile_ms = wire.compile_ms;
    outcome_texts(outcome, texts);
    for (int i = 0; i < TEXTS && end == ANSWER_WHOLE; i++) {
        if (wire.lengths[i] > 0) {
            *texts[i] = tool_alloc(wire.lengths[i]);
            end = bytes_read(file, *texts[i], wire.lengths[i] - 1, patience);
            (*texts[i])[wire.lengths[i] - 1] = '\0';
        }
    }
    return end;
}

/* What is said of a kernel whose worker did not answer. */
static void outcome_lost(enum answer_end end, int status, double timeout, struct outcome *outcome)
{
    outcome_deinit(outcome);
    memset(outcome, 0, sizeof *outcome);
    if (end == ANSWER_LATE) {
        outcome->status = GDPA_E_TIMEOUT;
        outcome->error = tool_format("not compiled within %g s and given up; --timeout allows more", timeout);
        return;
    }
    if (end == ANSWER_INTERRUPTED) {
        outcome->status = GDPA_E_TIMEOUT;
        outcome->error = tool_format("interrupted, and not compiled within %g s after that", INTERRUPT_GRACE);
        return;
    }
    outcome->status = GDPA_E_COMPILE;
    if (WIFSIGNALED(status)) {
        outcome->error = tool_format(
            "the compiler crashed: its process was ended by signal %d (%s)%s", WTERMSIG(status),
            strsignal(WTERMSIG(status)),
            WTERMSIG(status) == SIGKILL ? "; the system does so when memory runs out: fewer --jobs help" : "");
    } else {
        outcome->error = tool_format("the compiler ended its process with code %d", WEXITSTATUS(status));
    }
}

static struct compile_worker *worker_take(struct compile_crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    struct compile_worker *worker = crew->idle;
    if (worker != NULL) {
        crew->idle = worker->next;
    }
    pthread_mutex_unlock(&crew->lock);
    return worker != NULL ? worker : worker_start(crew->tool);
}

static void worker_give(struct compile_crew *crew, struct compile_worker *worker)
{
    pthread_mutex_lock(&crew->lock);
    worker->next = crew->idle;
    crew->idle = worker;
    pthread_mutex_unlock(&crew->lock);
}

void compile_crew_run(struct compile_crew *crew, const char *spec, double timeout, struct outcome *outcome)
{
    struct compile_worker *worker = worker_take(crew);
    if (worker == NULL) {
        compile_here(crew->tool, spec, outcome);
        return;
    }
    char *line = tool_format("%s\n", spec);
    const bool asked = write_all(worker->to, line, strlen(line));
    free(line);
    struct patience patience = {.until = timeout > 0 ? clock_seconds() + timeout : 0};
    memset(outcome, 0, sizeof *outcome);
    const enum answer_end end = asked ? answer_read(worker->from, &patience, outcome) : ANSWER_ENDED;
    if (end == ANSWER_WHOLE) {
        worker_give(crew, worker);
    } else {
        outcome_lost(end, worker_end(crew, worker, end != ANSWER_ENDED), timeout, outcome);
    }
}
