/*
 * The row of every command; each is defined in the file of its command (cmd_warm.c and so on).
 */
#ifndef GDPA_TOOLS_COMMANDS_H
#define GDPA_TOOLS_COMMANDS_H

#include "tools/args.h"

extern const struct command command_warm;
extern const struct command command_list;
extern const struct command command_show;
extern const struct command command_verify;
extern const struct command command_bench;
extern const struct command command_cache;
extern const struct command command_env;
extern const struct command command_doctor;
extern const struct command command_completion;

#endif
