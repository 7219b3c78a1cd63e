/*
 * A device of verify in host memory, whose kernel is plain C and may have a planted fault.
 */
#ifndef GDPA_TESTS_SUPPORT_HOST_DEVICE_H
#define GDPA_TESTS_SUPPORT_HOST_DEVICE_H

#include "tools/verify_run.h"

enum host_fault {
    FAULT_NONE,
    FAULT_ELEMENT,      /* one element is wrong */
    FAULT_NAN,          /* one element is NaN */
    FAULT_SKIPPED_ROW,  /* one row is not written */
    FAULT_PAST_END,     /* one element after the tensor is written */
    FAULT_BEFORE_START, /* one element before it */
    FAULT_UNUSED_ROW,   /* the row after a sequence is written */
    FAULT_GAP,          /* one element between heads is written */
    FAULT_INPUT,        /* an element of k is changed */
    FAULT_OFFSETS,      /* cu_seqlens is changed */
    FAULT_MASK,         /* sees one key too many */
    FAULT_LEAK,         /* reads the row behind the last key */
    FAULT_MINUS_ZERO,   /* rows without keys are -0 */
    FAULT_SCALE,        /* takes a given scale for 1 */
    FAULT_OUT_SCALE,    /* likewise */
    FAULT_HEAD,         /* always kv head 0 */
    FAULT_ACTIVATION,   /* silu for gelu */
    FAULT_UNSTABLE,     /* the second launch gives other bits */
    FAULT_LAUNCH,       /* the launch fails */
    FAULT_CRASH,        /* it ends the process */
    FAULT_HANG          /* it never ends */
};

enum {
    HOST_STAGING = 10007, /* an odd size: images are cut anywhere */
};

struct host_device {
    struct verify_device device; /* self points back */
    gdpa_spec spec;
    enum host_fault fault;
    const char *fault_in; /* only in kernels whose spec holds this text; NULL: in all */
    bool no_device;       /* open fails */
    bool faulty;          /* the prepared kernel has the fault */
    int launches;
    int memory; /* pieces of memory that are not released */
    unsigned char staging[HOST_STAGING];
};

void host_device_init(struct host_device *host, enum host_fault fault);

/* Spec texts that it understands: "fwd act=NAME d=N dv=N jagged causal left=N fp16 fp32out unaligned", any of them. */
bool host_spec_parse(const char *text, gdpa_spec *spec);

#endif
