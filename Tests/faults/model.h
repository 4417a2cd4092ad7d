/*
 * A model of a disk and its cache, replayed from a trace. Two models of a power cut:
 *
 *   by writes  durable content plus any selection of the writes since the last flush, whole or in sectors
 *   by pages   the page cache of Linux: a flush writes the dirty pages of 4096 bytes; a failed flush marks them clean, and they are lost
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
/* `lost_period`: every flush whose number is a multiple of it has no effect, as on a disk that ignores flushes; 0: none. */
struct model *model_make(unsigned lost_period);
void model_free(struct model *model);
/* Loads the files of a directory as durable content. */
void model_load(struct model *model, const char *directory);
/* Applies one record. Marks are applied to the ledger, which may be NULL. */
void model_apply(struct model *model, const struct trace_record *record, struct ledger *ledger);

enum image_kind {
  IMAGE_SYNCED,      /* nothing since the last flush */
  IMAGE_ALL,         /* everything: the process ended without a power cut */
  IMAGE_PREFIX,      /* writes and names up to a random point */
  IMAGE_WRITES,      /* whole writes at random */
  IMAGE_SECTORS,     /* sectors of 512 bytes at random */
  IMAGE_BLOCKS,      /* pages of 4096 bytes at random */
  IMAGE_GARBAGE,     /* as sectors, with random bytes in sectors left out */
  IMAGE_KINDS,
  IMAGE_CACHE_SYNCED, /* by pages: flushed pages */
  IMAGE_CACHE_DIRTY,  /* by pages: flushed and dirty pages */
  IMAGE_CACHE_RANDOM  /* by pages: flushed and some dirty pages */
};

const char *image_name(enum image_kind kind);
/* Empties the directory and writes the files that a power cut at this point may leave. */
void model_image(const struct model *model, enum image_kind kind, struct generator generator, const char *directory);

#endif
