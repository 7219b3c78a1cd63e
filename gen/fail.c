/*
 * See fail.h.
 */
#include "gen/fail.h"

gdpa_status fail(struct sbuf *why, gdpa_status status, const char *format, ...)
{
    sbuf_reset(why);
    va_list arguments;
    va_start(arguments, format);
    sbuf_vaddf(why, format, arguments);
    va_end(arguments);
    return status;
}
