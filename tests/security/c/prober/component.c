/* Tries what it is told, through the C library, and says how it went: `ok`, `ok TEXT` or `no`. */
#define _GNU_SOURCE
#define TORVYN_PROCESSOR
#include <torvyn.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void say(const char *word, const char *text) {
    char *said = torvyn_scratch(1024);
    int size = snprintf(said, 1024, text ? "%s %s" : "%s", word, text);
    torvyn_emit(said, size < 1024 ? size : 1023);
}

static void tell(int failed) { say(failed ? "no" : "ok", 0); }

static void tell_file(const char *path) {
    char held[256];
    FILE *file = fopen(path, "r");
    if (!file) return tell(1);
    held[fread(held, 1, 255, file)] = 0;
    fclose(file);
    say("ok", held);
}

static void put_file(const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) return tell(1);
    int failed = fputs("written", file) < 0;
    tell(fclose(file) != 0 || failed);
}

static int held[2048], held_count;

/* Opens the file until it may not any more, and keeps all of them open. */
static void hold_file(const char *path) {
    char count[16];
    while (held_count < 2048 && (held[held_count] = open(path, O_RDONLY)) >= 0) held_count++;
    snprintf(count, sizeof count, "%d", held_count);
    say("ok", count);
}

static void release_files(void) {
    while (held_count > 0) close(held[--held_count]);
    say("ok", 0);
}

static void tell_environment(void) {
    extern char **environ;
    char names[512] = "";
    for (char **at = environ; at && *at; at++) {
        strncat(names, *at, 511 - strlen(names));
        strncat(names, ";", 511 - strlen(names));
    }
    say("ok", names);
}

static void tell_fate(void) {
    struct timespec wall, steady, nap = {3600, 0};
    unsigned char random[8] = {0};
    char told[128];
    clock_gettime(CLOCK_MONOTONIC, &steady);
    nanosleep(&nap, 0);
    clock_gettime(CLOCK_REALTIME, &wall);
    getentropy(random, sizeof random);
    snprintf(told, sizeof told, "%lld %ld %lld %02x%02x%02x%02x", (long long)wall.tv_sec, wall.tv_nsec,
             (long long)steady.tv_sec, random[0], random[1], random[2], random[3]);
    say("ok", told);
}

void torvyn_process(const torvyn_element *element) {
    torvyn_bytes read = torvyn_read(element);
    char line[512] = "";
    memcpy(line, read.data, read.size < 511 ? read.size : 511);
    char *verb = strtok(line, " "), *first = strtok(0, " "), *second = strtok(0, " ");
    struct stat facts;
    unsigned char random[8];
    if (!verb) return;
    if (!strcmp(verb, "read")) return tell_file(first);
    if (!strcmp(verb, "write")) return put_file(first);
    if (!strcmp(verb, "hold")) return hold_file(first);
    if (!strcmp(verb, "release")) return release_files();
    if (!strcmp(verb, "stat")) return tell(stat(first, &facts));
    if (!strcmp(verb, "remove")) return tell(unlink(first));
    if (!strcmp(verb, "folder")) return tell(mkdir(first, 0700));
    if (!strcmp(verb, "rename")) return tell(rename(first, second));
    if (!strcmp(verb, "link")) return tell(link(first, second));
    if (!strcmp(verb, "symlink")) return tell(symlink(first, second));
    if (!strcmp(verb, "environment")) return tell_environment();
    if (!strcmp(verb, "random")) return tell(getentropy(random, sizeof random));
    if (!strcmp(verb, "fate")) return tell_fate();
    if (!strcmp(verb, "print")) return tell(puts(first) < 0 || fflush(stdout));
    if (!strcmp(verb, "fail")) return torvyn_fail(TORVYN_INTERNAL, getenv(first));
    say("no", "such verb");
}
