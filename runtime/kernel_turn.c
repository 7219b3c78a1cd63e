/*
 * Waiting for a turn; see kernel_turn.h. The disk is looked at before each attempt, so that the kernel which another
 * process stores ends the wait also where its lock is not seen to go. Nothing is held while waiting.
 */
#include "runtime/kernel_turn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MILLISECOND INT64_C(1000000)
#define SECOND (1000 * MILLISECOND)
#define PAUSE_FIRST MILLISECOND
#define PAUSE_LAST (50 * MILLISECOND)
#define FIRST_LINE (2 * SECOND) /* a wait as long as a compile is nothing to speak of */
#define NEXT_LINE (20 * SECOND)

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

static void pause_for(int64_t nanoseconds)
{
    struct timespec left = {(time_t)(nanoseconds / SECOND), (long)(nanoseconds % SECOND)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

static void holder_print(const struct kernel_turn *turn, char text[64])
{
    const long holder = cache_turn_holder(&turn->lock, turn->key);
    if (holder > 0) {
        snprintf(text, 64, "process %ld", holder);
    } else {
        snprintf(text, 64, "a process that cannot be seen from here");
    }
}

static void wait_note(const struct kernel_turn *turn, int64_t waited)
{
    if (log_wants(turn->log, GDPA_LOG_INFO, LOG_CACHE)) {
        char holder[64];
        holder_print(turn, holder);
        log_write(turn->log, GDPA_LOG_INFO, LOG_CACHE,
                  "waiting for %s since %.0f s: %s compiles it (%s); at most %.0f s", turn->name, (double)waited * 1e-9,
                  holder, cache_path(turn->cache), (double)turn->wait_ns * 1e-9);
    }
}

static void limit_note(const struct kernel_turn *turn)
{
    char holder[64];
    holder_print(turn, holder);
    log_write(
        turn->log, GDPA_LOG_WARN, LOG_CACHE,
        "%s had its turn to compile %s for more than %.0f s (%s) and is not waited for any longer: compiling it here "
        "as well. See what that process does; GDPAJIT_CACHE_WAIT sets the limit",
        holder, turn->name, (double)turn->wait_ns * 1e-9, cache_path(turn->cache));
}

gdpa_status kernel_turn_begin(struct kernel_turn *turn)
{
    const int64_t start = now_ns();
    int64_t pause = PAUSE_FIRST;
    int64_t next_line = FIRST_LINE;
    bool waited = false;
    cache_turn_init(&turn->lock);
    for (;;) {
        const enum cache_turn_state state = cache_turn_try(turn->cache, turn->key, &turn->lock);
        if (state == CACHE_TURN_NONE) {
            return GDPA_E_NOT_FOUND;
        }
        /* Also with the turn just got: another process may have had it, and stored, since the last look. */
        const gdpa_status status = turn->look(turn->user);
        if (status != GDPA_E_NOT_FOUND || state == CACHE_TURN_MINE) {
            return status;
        }
        if (!waited) {
            waited = true;
            atomic_fetch_add_explicit(turn->waits, 1, memory_order_relaxed);
        }
        const int64_t so_far = now_ns() - start;
        if (so_far >= turn->wait_ns) {
            if (turn->wait_ns > 0) {
                limit_note(turn);
            }
            return GDPA_E_NOT_FOUND;
        }
        if (so_far >= next_line) {
            wait_note(turn, so_far);
            next_line = so_far + NEXT_LINE;
        }
        pause_for(pause < turn->wait_ns - so_far ? pause : turn->wait_ns - so_far);
        pause = 2 * pause < PAUSE_LAST ? 2 * pause : PAUSE_LAST;
    }
}

void kernel_turn_end(struct kernel_turn *turn)
{
    cache_turn_end(&turn->lock);
}
