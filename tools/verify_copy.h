/*
 * Large images between the host and a device of verify, and over them, at the speed that the machine has: in pieces through
 * memory that the device reads and writes directly (verify_device.staging), on many threads, without another copy on the
 * host.
 */
#ifndef GDPA_TOOLS_VERIFY_COPY_H
#define GDPA_TOOLS_VERIFY_COPY_H

#include "tools/verify_run.h"

/* The first and the last byte that are not as expected. */
struct difference {
    bool any;
    size_t first, last;
};

/* threads 0: one a processor. Little work is done on the calling thread alone. */
void bytes_fill(void *memory, unsigned char value, size_t bytes, int threads);
struct difference bytes_differ(const void *found, const void *expected, size_t bytes, int threads);
struct difference bytes_differ_from(const void *found, unsigned char value, size_t bytes, int threads);

/* False when the device failed; its why() tells the reason. */
bool image_upload(const struct verify_device *device, void *memory, const void *image, size_t bytes, int threads);
bool image_download(const struct verify_device *device, void *image, const void *memory, size_t bytes, int threads);
/* Memory of the device with an image. */
bool image_differs(const struct verify_device *device, const void *memory, const void *image, size_t bytes, int threads,
                   struct difference *difference);

#endif
