/*
 * Requests and the workers that do them; see request.h.
 */
#include "runtime/request.h"
#include "runtime/kernel.h"
#include "runtime/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

struct gdpa_request {
    gdpa_ctx *ctx; /* held */
    gdpa_spec spec;
    int holders; /* the caller, and the crew until it is done; this and what follows under the lock of the crew */
    bool begun, done;
    gdpa_status status;
    gdpa_kernel *kernel; /* held */
    char *text;          /* the error, or NULL */
    gdpa_request *next;
};

/* ---------------------------------------------------------------------------------------------------------------
 * The crew
 * ------------------------------------------------------------------------------------------------------------- */

void crew_init(struct crew *crew)
{
    pthread_condattr_t attributes;
    memset(crew, 0, sizeof *crew);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&crew->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

void crew_deinit(struct crew *crew)
{
    pthread_cond_destroy(&crew->changed);
    pthread_mutex_destroy(&crew->lock);
}

void slot_take(gdpa_ctx *ctx)
{
    struct crew *crew = &ctx->crew;
    pthread_mutex_lock(&crew->lock);
    while (crew->slots_used >= ctx->jobs) {
        pthread_cond_wait(&crew->changed, &crew->lock);
    }
    crew->slots_used++;
    pthread_mutex_unlock(&crew->lock);
}

void slot_give(gdpa_ctx *ctx)
{
    struct crew *crew = &ctx->crew;
    pthread_mutex_lock(&crew->lock);
    crew->slots_used--;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

/* With the lock held, which is given up: the last holder's memory goes. */
static void request_leave(gdpa_request *request)
{
    gdpa_ctx *ctx = request->ctx;
    const bool last = --request->holders == 0;
    pthread_mutex_unlock(&ctx->crew.lock);
    if (last) {
        gdpa_kernel_release(request->kernel);
        memory_free(&ctx->allocator, request->text);
        memory_free(&ctx->allocator, request);
        context_release(ctx);
    }
}

static void request_unlink(struct crew *crew, gdpa_request *request)
{
    gdpa_request **link = &crew->requests;
    while (*link != request) {
        link = &(*link)->next;
    }
    *link = request->next;
    request->next = NULL;
}

/* With the lock held. The crew's hold stays. */
static void request_finish(gdpa_request *request, gdpa_status status, gdpa_kernel *kernel, const char *text)
{
    request->status = status;
    request->kernel = kernel;
    request->text = status == GDPA_OK ? NULL : memory_text(&request->ctx->allocator, text);
    request->done = true;
    pthread_cond_broadcast(&request->ctx->crew.changed);
}

/* With the lock held, which is given up meanwhile. */
static void request_do(gdpa_request *request)
{
    gdpa_ctx *ctx = request->ctx;
    gdpa_kernel *kernel = NULL;
    request->begun = true;
    ctx->crew.waiting--;
    pthread_mutex_unlock(&ctx->crew.lock);
    const gdpa_status status = gdpa_kernel_get(ctx, &request->spec, &kernel);
    pthread_mutex_lock(&ctx->crew.lock);
    request_unlink(&ctx->crew, request);
    request_finish(request, status, kernel, gdpa_last_error());
}

static gdpa_request *request_next(const struct crew *crew)
{
    gdpa_request *request = crew->requests;
    while (request != NULL && request->begun) {
        request = request->next;
    }
    return request;
}

/* A worker holds the context, so that the last one to leave may be the one that frees it. */
static void *worker(void *user)
{
    gdpa_ctx *ctx = user;
    const struct nvrtc *nvrtc = NULL;
    context_nvrtc(ctx, &nvrtc, NULL);
    process_wait_at_exit(); /* behind the exit handlers of NVRTC, hence before them */
    pthread_mutex_lock(&ctx->crew.lock);
    gdpa_request *request = NULL;
    while (!ctx->crew.stop && (request = request_next(&ctx->crew)) != NULL) {
        request_do(request);
        request_leave(request);
        pthread_mutex_lock(&ctx->crew.lock);
    }
    ctx->crew.workers--;
    pthread_cond_broadcast(&ctx->crew.changed);
    pthread_mutex_unlock(&ctx->crew.lock);
    context_release(ctx);
    return NULL;
}

/* With the lock held. Signals are the program's business, not the workers'. */
static bool worker_start(gdpa_ctx *ctx)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    context_retain(ctx);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&thread, &attributes, worker, ctx) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    ctx->crew.workers += started;
    if (!started) {
        context_release(ctx);
    }
    return started;
}

void crew_stop(gdpa_ctx *ctx)
{
    struct crew *crew = &ctx->crew;
    pthread_mutex_lock(&crew->lock);
    crew->stop = true;
    gdpa_request *request = NULL;
    while ((request = request_next(crew)) != NULL) {
        crew->waiting--;
        request_unlink(crew, request);
        request_finish(request, GDPA_E_NOT_READY, NULL,
                       "the kernel was not begun when its context was destroyed or the process ended");
        request_leave(request);
        pthread_mutex_lock(&crew->lock);
    }
    while (crew->workers > 0) {
        pthread_cond_wait(&crew->changed, &crew->lock);
    }
    pthread_mutex_unlock(&crew->lock);
}

void crew_in_child(gdpa_ctx *ctx)
{
    struct crew *crew = &ctx->crew;
    gdpa_request *request = crew->requests;
    crew_init(crew);
    while (request != NULL) {
        gdpa_request *next = request->next;
        request->next = NULL;
        request->status = GDPA_E_NOT_READY;
        request->text = NULL;
        request->done = true; /* with a hold that nobody gives up: its memory stays */
        request = next;
    }
}

/* ---------------------------------------------------------------------------------------------------------------
 * The calls
 * ------------------------------------------------------------------------------------------------------------- */

static gdpa_status request_queue(gdpa_ctx *ctx, gdpa_request *request)
{
    struct crew *crew = &ctx->crew;
    gdpa_request **link = &crew->requests;
    pthread_mutex_lock(&crew->lock);
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = request;
    crew->waiting++;
    crew->stop = false;
    if (crew->workers < ctx->jobs && !worker_start(ctx) && crew->workers == 0) {
        request_do(request); /* the system gives no thread */
        request_leave(request);
        return GDPA_OK;
    }
    pthread_mutex_unlock(&crew->lock);
    return GDPA_OK;
}

/* A request with its spec complete: which device is meant is decided here, on the caller's thread. NULL: see *status. */
static gdpa_request *request_make(gdpa_ctx *ctx, const gdpa_spec *spec, int holders, gdpa_status *status)
{
    gdpa_spec complete;
    *status = kernel_spec_complete(ctx, spec, NULL, &complete);
    if (*status != GDPA_OK) {
        return NULL;
    }
    gdpa_request *made = memory_alloc(&ctx->allocator, sizeof *made);
    if (made == NULL) {
        *status = error_set(GDPA_E_MEMORY, "no memory for a request");
        return NULL;
    }
    context_retain(ctx);
    made->ctx = ctx;
    made->spec = complete;
    made->holders = holders;
    return made;
}

gdpa_status gdpa_kernel_get_async(gdpa_ctx *ctx, const gdpa_spec *spec, gdpa_request **request)
{
    FAIL_IF(ctx == NULL || spec == NULL || request == NULL, GDPA_E_ARGUMENT, "%s is NULL",
            ctx == NULL    ? "ctx"
            : spec == NULL ? "spec"
                           : "request");
    gdpa_status status = GDPA_OK;
    gdpa_request *made = request_make(ctx, spec, 2, &status);
    if (made == NULL) {
        return status;
    }
    gdpa_kernel *kernel = kernel_in_memory(ctx, &made->spec);
    if (kernel != NULL) {
        made->holders = 1;
        made->kernel = gdpa_kernel_retain(kernel);
        made->done = true;
    } else {
        TRY(request_queue(ctx, made));
    }
    *request = made;
    return GDPA_OK;
}

gdpa_status gdpa_prefetch(gdpa_ctx *ctx, const gdpa_spec *spec)
{
    FAIL_IF(ctx == NULL || spec == NULL, GDPA_E_ARGUMENT, "%s is NULL", ctx == NULL ? "ctx" : "spec");
    gdpa_status status = GDPA_OK;
    gdpa_request *made = request_make(ctx, spec, 1, &status);
    if (made == NULL) {
        return status;
    }
    if (kernel_in_memory(ctx, &made->spec) == NULL) {
        return request_queue(ctx, made);
    }
    gdpa_request_release(made);
    return GDPA_OK;
}

static struct timespec deadline_in(int64_t milliseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(milliseconds / 1000);
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return until;
}

/* With the lock held. */
static bool request_wait_until_done(gdpa_request *request, int64_t milliseconds)
{
    struct crew *crew = &request->ctx->crew;
    const int64_t year = INT64_C(1000) * 60 * 60 * 24 * 365;
    const struct timespec until = deadline_in(milliseconds < 0 || milliseconds > year ? year : milliseconds);
    int result = 0;
    while (!request->done && milliseconds != 0 && result != ETIMEDOUT) {
        result = milliseconds < 0 ? pthread_cond_wait(&crew->changed, &crew->lock)
                                  : pthread_cond_timedwait(&crew->changed, &crew->lock, &until);
    }
    return request->done;
}

gdpa_status gdpa_request_wait(gdpa_request *request, int64_t timeout_ms, gdpa_kernel **kernel)
{
    FAIL_IF(request == NULL || kernel == NULL, GDPA_E_ARGUMENT, "%s is NULL", request == NULL ? "request" : "kernel");
    struct crew *crew = &request->ctx->crew;
    pthread_mutex_lock(&crew->lock);
    const bool done = request_wait_until_done(request, timeout_ms);
    pthread_mutex_unlock(&crew->lock);
    FAIL_IF(!done, GDPA_E_TIMEOUT,
            "the kernel is not ready after %lld ms; it is still being made, and may be waited for again",
            (long long)timeout_ms);
    /* What is done never changes again. */
    FAIL_IF(request->status != GDPA_OK, request->status, "%s",
            request->text != NULL ? request->text
                                  : "the kernel was not made: the process was forked meanwhile, or memory ran out");
    *kernel = gdpa_kernel_retain(request->kernel);
    return GDPA_OK;
}

void gdpa_request_release(gdpa_request *request)
{
    if (request != NULL) {
        pthread_mutex_lock(&request->ctx->crew.lock);
        request_leave(request);
    }
}
