/*
 * A layer between SQLite and its own file layer that fails when told to, and that can lose what was not synced, as a power
 * cut does. One plan at a time; tests that use it have one thread.
 */
#ifndef GDPA_TESTS_SUPPORT_CACHE_FAULTS_H
#define GDPA_TESTS_SUPPORT_CACHE_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

enum fault_operation {
    FAULT_OPEN,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_SYNC,
    FAULT_TRUNCATE,
    FAULT_LOCK,
    FAULT_SIZE,
    FAULT_DELETE,
    FAULT_SHARED_MAP,
    FAULT_SHARED_LOCK,
    FAULT_OPERATIONS
};

#define FAULT_KILL (-9)

extern const char *const fault_names[FAULT_OPERATIONS];

struct fault_plan {
    enum fault_operation operation;
    int64_t countdown; /* calls until the fault; negative: no fault planned */
    bool lasting;
    int code; /* of a write that fails; FAULT_KILL: half of it is written and the process killed */
    bool met;
};

extern struct fault_plan fault_plan;

/* Puts the layer in place, for the rest of the process. */
void faults_install(void);

/* From now on what is written is remembered until it is synced; after `writes` more writes the power is gone. */
void power_record(int64_t writes);
bool power_is_gone(void); /* every call of SQLite fails */
/*
 * The power comes back: of what was not synced each write is lost with a probability of `lost` out of 256 (256: all of
 * it), and the shared memory is gone. How many were lost. Connections of before must be closed already.
 */
unsigned power_restore(const char *database, unsigned lost, uint64_t *random);

#endif
