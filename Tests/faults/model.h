/*
 * A disk and its cache, replayed from a trace. Two views of what a power cut leaves:
 *
 *   by writes  durable content plus any choice of the writes since the last flush, whole or in sectors
 *   by pages   the page cache of Linux: a flush writes the dirty pages of 4096 bytes; one that fails leaves them clean, and lost
 *
 * Names are durable after a flush of the directory, or any time before.
 */
#ifndef FAULTS_MODEL_H
#define FAULTS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger.h"
#include "shim.h"

struct trace {
  const char *bytes;
  size_t size;
  size_t *offsets; /* of the records */
  size_t count;
};

bool trace_load(struct trace *trace, const char *path);
void trace_free(struct trace *trace);
const struct trace_record *trace_at(const struct trace *trace, size_t index);

struct model;
/* `lies`: one flush in so many has no effect, as on a disk that lies; 0: none. */
struct model *model_make(unsigned lies);
void model_free(struct model *model);
/* The files of a directory, durable as they are. */
void model_load(struct model *model, const char *directory);
/* Applies one record. Marks are given to the ledger, which may be NULL. */
void model_apply(struct model *model, const struct trace_record *record, struct ledger *ledger);

enum image_kind {
  IMAGE_SYNCED,      /* nothing since the last flush */
  IMAGE_ALL,         /* everything: the process died, not the system */
  IMAGE_PREFIX,      /* writes and names up to a random one */
  IMAGE_WRITES,      /* whole writes at random */
  IMAGE_SECTORS,     /* sectors of 512 bytes at random */
  IMAGE_BLOCKS,      /* pages of 4096 bytes at random */
  IMAGE_GARBAGE,     /* as sectors, those left out hold noise */
  IMAGE_KINDS,
  IMAGE_CACHE_SYNCED, /* by pages: the flushed ones */
  IMAGE_CACHE_DIRTY,  /* by pages: the dirty ones, too */
  IMAGE_CACHE_RANDOM  /* by pages: some of the dirty ones */
};

const char *image_name(enum image_kind kind);
/* Writes what a power cut now may leave into the directory, which is emptied before. */
void model_image(const struct model *model, enum image_kind kind, struct dice dice, const char *directory);

#endif
