/*
 * The dispatch table: every command of gdpa-jit, in the order in which the help text lists them. Each row lives in the file
 * of its command.
 */
#include "tools/commands.h"

#include <stddef.h>

const struct command *const commands[] = {
    &command_warm,   &command_list, &command_show, &command_verify, &command_bench,      &command_cache, &command_pack,
    &command_unpack, &command_why,  &command_env,  &command_doctor, &command_completion, NULL,
};
