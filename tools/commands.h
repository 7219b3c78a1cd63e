/*
 * The row of every command; each is defined in the file of its command (cmd_warm.c and so on).
 */
#ifndef GDPA_TOOLS_COMMANDS_H
#define GDPA_TOOLS_COMMANDS_H

#include "include/gdpajit.h"
#include "tools/args.h"

extern const struct command command_warm;
extern const struct command command_list;
extern const struct command command_show;
extern const struct command command_verify;
extern const struct command command_bench;
extern const struct command command_cache;
extern const struct command command_pack;
extern const struct command command_unpack;
extern const struct command command_why;
extern const struct command command_env;
extern const struct command command_doctor;
extern const struct command command_completion;

/* What was written into a pack; of cmd_pack.c. */
void pack_print(struct tool *tool, const char *path, const gdpa_pack_report *report);

#endif
