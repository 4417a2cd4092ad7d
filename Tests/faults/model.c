#include "model.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

enum { page = 4096, sector = 512, names_room = 64, handles_room = 65536, inodes_room = 4096 };

/* A change of a file since its last flush. */
struct change {
  enum trace_kind kind;
  uint64_t offset, length;
  uint32_t flags;
  const char *bytes;
  uint64_t order;
};

struct content {
  char *bytes;
  size_t size, room;
};

struct inode {
  struct content visible, durable;
  struct change *changes;
  size_t changes_count, changes_room;
  unsigned char *dirty; /* one flag for each page */
  size_t dirty_room;
  size_t low; /* the smallest size since the last successful flush */
};

struct name {
  char name[NAME_MAX + 1];
  int inode;
};

struct names {
  struct name entries[names_room];
  int count;
};

struct name_change {
  enum trace_kind kind;
  uint32_t flags;
  int inode;
  char old[NAME_MAX + 1], new[NAME_MAX + 1];
  uint64_t order;
};

struct model {
  struct inode *inodes[inodes_room];
  int inodes_count;
  int handles[handles_room]; /* inode, or -1: the directory, -2: none */
  struct names visible, durable;
  struct name_change *changes;
  size_t changes_count, changes_room;
  uint64_t order;
  unsigned lost_period, flushes;
};

/* ------------------------------------------------------------------ traces */

bool trace_load(struct trace *trace, const char *path) {
  memset(trace, 0, sizeof *trace);
  int handle = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (handle < 0) return false;
  if (fstat(handle, &status) != 0) abort();
  trace->size = (size_t)status.st_size;
  trace->bytes = trace->size == 0 ? NULL : mmap(NULL, trace->size, PROT_READ, MAP_SHARED, handle, 0);
  close(handle);
  if (trace->bytes == MAP_FAILED) abort();
  size_t room = 0;
  for (size_t offset = 0; offset + sizeof(struct trace_record) <= trace->size;) {
    struct trace_record head;
    memcpy(&head, trace->bytes + offset, sizeof head);
    if (offset + sizeof head + head.payload > trace->size) break; /* the process ended during this write */
    if (trace->count == room) trace->offsets = realloc(trace->offsets, (room = room * 2 + 1024) * sizeof(size_t));
    trace->offsets[trace->count++] = offset;
    offset += sizeof head + head.payload;
  }
  return true;
}

void trace_free(struct trace *trace) {
  if (trace->size > 0) munmap((void *)trace->bytes, trace->size);
  free(trace->offsets);
  memset(trace, 0, sizeof *trace);
}

const struct trace_record *trace_at(const struct trace *trace, size_t index) {
  return (const struct trace_record *)(const void *)(trace->bytes + trace->offsets[index]);
}

/* Records may be unaligned. */
static struct trace_record head_of(const struct trace_record *record) {
  struct trace_record head;
  memcpy(&head, record, sizeof head);
  return head;
}
static const char *payload_of(const struct trace_record *record) { return (const char *)record + sizeof *record; }

/* ------------------------------------------------------------------ contents */

static void resize(struct content *content, size_t size) {
  if (size > content->room) {
    size_t room = size + size / 2 + page;
    content->bytes = realloc(content->bytes, room);
    if (content->bytes == NULL) abort();
    memset(content->bytes + content->room, 0, room - content->room);
    content->room = room;
  }
  if (size < content->size) memset(content->bytes + size, 0, content->size - size);
  content->size = size;
}

static void put(struct content *content, uint64_t offset, const char *bytes, size_t size) {
  if (offset + size > content->size) resize(content, offset + size);
  memcpy(content->bytes + offset, bytes, size);
}

static void apply_change(struct content *content, const struct change *change) {
  switch (change->kind) {
    case TRACE_WRITE: put(content, change->offset, change->bytes, change->length); break;
    case TRACE_TRUNCATE: resize(content, change->offset); break;
    case TRACE_ALLOCATE: {
      uint64_t end = change->offset + change->length;
      if ((change->flags & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) && change->offset < content->size) {
        memset(content->bytes + change->offset, 0, (end < content->size ? end : content->size) - change->offset);
      }
      if (!(change->flags & FALLOC_FL_KEEP_SIZE) && end > content->size) resize(content, end);
      break;
    }
    default: break;
  }
}

/* ------------------------------------------------------------------ inodes */

static int new_inode(struct model *model) {
  if (model->inodes_count == inodes_room) abort();
  struct inode *inode = calloc(1, sizeof *inode);
  model->inodes[model->inodes_count] = inode;
  return model->inodes_count++;
}

static void mark_dirty(struct inode *inode, size_t from, size_t to) {
  size_t last = (to + page - 1) / page;
  if (last > inode->dirty_room) {
    size_t room = last * 2 + 64;
    inode->dirty = realloc(inode->dirty, room);
    memset(inode->dirty + inode->dirty_room, 0, room - inode->dirty_room);
    inode->dirty_room = room;
  }
  for (size_t index = from / page; index < last; index++) inode->dirty[index] = 1;
}

static void change_inode(struct model *model, struct inode *inode, struct change change) {
  if (inode->changes_count == inode->changes_room) {
    inode->changes_room = inode->changes_room * 2 + 16;
    inode->changes = realloc(inode->changes, inode->changes_room * sizeof *inode->changes);
    if (inode->changes == NULL) abort();
  }
  change.order = ++model->order;
  inode->changes[inode->changes_count++] = change;
  apply_change(&inode->visible, &change);
  if (inode->visible.size < inode->low) inode->low = inode->visible.size;
  if (change.kind == TRACE_WRITE) mark_dirty(inode, change.offset, change.offset + change.length);
  if (change.kind == TRACE_ALLOCATE && (change.flags & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))) {
    mark_dirty(inode, change.offset, change.offset + change.length);
  }
}

/* Writes the chosen dirty pages to the durable content. The size follows, because it is metadata of the file system. */
static void write_back(const struct inode *inode, struct content *to, bool (*choose)(struct generator *, size_t), struct generator *generator) {
  if (inode->low < to->size) resize(to, inode->low);
  resize(to, inode->visible.size);
  for (size_t index = 0; index < inode->dirty_room && index * page < inode->visible.size; index++) {
    if (!inode->dirty[index] || !choose(generator, index)) continue;
    size_t start = index * page, size = inode->visible.size - start < page ? inode->visible.size - start : page;
    memcpy(to->bytes + start, inode->visible.bytes + start, size);
  }
}

static bool choose_all(struct generator *generator, size_t index) { return (void)generator, (void)index, true; }
static bool choose_some(struct generator *generator, size_t index) { return (void)index, random_below(generator, 2) == 0; }

static void sync_inode(struct inode *inode) {
  write_back(inode, &inode->durable, choose_all, NULL);
  inode->changes_count = 0;
  inode->low = inode->visible.size;
  if (inode->dirty_room > 0) memset(inode->dirty, 0, inode->dirty_room);
}

/* ------------------------------------------------------------------ names */

static int find(const struct names *names, const char *name) {
  for (int index = 0; index < names->count; index++) {
    if (strcmp(names->entries[index].name, name) == 0) return index;
  }
  return -1;
}

static int inode_named(const struct names *names, const char *name) {
  int index = find(names, name);
  return index < 0 ? -1 : names->entries[index].inode;
}

static void set_name(struct names *names, const char *name, int inode) {
  int index = find(names, name);
  if (index < 0) {
    if (names->count == names_room) abort();
    index = names->count++;
    snprintf(names->entries[index].name, sizeof names->entries[index].name, "%s", name);
  }
  names->entries[index].inode = inode;
}

static void drop_name(struct names *names, const char *name) {
  int index = find(names, name);
  if (index >= 0) names->entries[index] = names->entries[--names->count];
}

enum { exchange = 2 };

static void apply_name(struct names *names, const struct name_change *change) {
  switch (change->kind) {
    case TRACE_OPEN:
    case TRACE_LINK: set_name(names, change->new, change->inode); break;
    case TRACE_UNLINK: drop_name(names, change->new); break;
    case TRACE_RENAME:
      if (change->flags & exchange) {
        int other = inode_named(names, change->new);
        if (other >= 0) set_name(names, change->old, other);
      } else {
        drop_name(names, change->old);
      }
      set_name(names, change->new, change->inode);
      break;
    default: break;
  }
}

static void change_name(struct model *model, struct name_change change) {
  if (model->changes_count == model->changes_room) {
    model->changes_room = model->changes_room * 2 + 16;
    model->changes = realloc(model->changes, model->changes_room * sizeof *model->changes);
    if (model->changes == NULL) abort();
  }
  change.order = ++model->order;
  model->changes[model->changes_count++] = change;
  apply_name(&model->visible, &change);
}

/* ------------------------------------------------------------------ the model */

struct model *model_make(unsigned lost_period) {
  struct model *model = calloc(1, sizeof *model);
  model->lost_period = lost_period;
  for (int index = 0; index < handles_room; index++) model->handles[index] = -2;
  return model;
}

void model_free(struct model *model) {
  for (int index = 0; index < model->inodes_count; index++) {
    struct inode *inode = model->inodes[index];
    free(inode->visible.bytes);
    free(inode->durable.bytes);
    free(inode->changes);
    free(inode->dirty);
    free(inode);
  }
  free(model->changes);
  free(model);
}

void model_load(struct model *model, const char *directory) {
  struct snapshot snapshot;
  snapshot_take(&snapshot, directory);
  for (size_t index = 0; index < snapshot.count; index++) {
    int number = new_inode(model);
    put(&model->inodes[number]->visible, 0, snapshot.files[index].bytes, snapshot.files[index].size);
    put(&model->inodes[number]->durable, 0, snapshot.files[index].bytes, snapshot.files[index].size);
    model->inodes[number]->low = snapshot.files[index].size;
    set_name(&model->visible, snapshot.files[index].name, number);
    set_name(&model->durable, snapshot.files[index].name, number);
  }
  snapshot_free(&snapshot);
}

static void open_file(struct model *model, struct trace_record head, const char *bytes) {
  struct name_change change = { .kind = TRACE_OPEN };
  if (head.flags & TRACE_OPEN_DIRECTORY) {
    model->handles[head.handle] = -1;
    return;
  }
  snprintf(change.new, sizeof change.new, "%.*s", (int)head.payload, bytes);
  int inode = head.flags & TRACE_OPEN_NAMELESS ? -1 : inode_named(&model->visible, change.new);
  if (inode < 0) {
    inode = new_inode(model);
    if (!(head.flags & TRACE_OPEN_NAMELESS)) {
      change.inode = inode;
      change_name(model, change);
    }
  }
  model->handles[head.handle] = inode;
}

void model_apply(struct model *model, const struct trace_record *record, struct ledger *ledger) {
  struct trace_record head = head_of(record);
  const char *bytes = payload_of(record);
  int number = head.handle >= 0 && head.handle < handles_room ? model->handles[head.handle] : -2;
  struct inode *inode = number >= 0 ? model->inodes[number] : NULL;
  struct name_change change = { .kind = (enum trace_kind)head.kind, .flags = head.flags };
  switch (head.kind) {
    case TRACE_OPEN: open_file(model, head, bytes); break;
    case TRACE_DUPLICATE: model->handles[head.handle] = model->handles[head.offset]; break;
    case TRACE_WRITE:
    case TRACE_TRUNCATE:
    case TRACE_ALLOCATE:
      if (inode == NULL) abort();
      change_inode(model, inode,
                   (struct change){ (enum trace_kind)head.kind, head.offset, head.kind == TRACE_WRITE ? head.payload : head.length,
                                    head.flags, bytes, 0 });
      break;
    case TRACE_SYNC:
      if (model->lost_period > 0 && ++model->flushes % model->lost_period == 0) break;
      if (inode != NULL) sync_inode(inode);
      if (number == -1) {
        model->durable = model->visible;
        model->changes_count = 0;
      }
      break;
    case TRACE_SYNC_FAILED:
      if (inode != NULL && inode->dirty_room > 0) memset(inode->dirty, 0, inode->dirty_room);
      break;
    case TRACE_RENAME:
    case TRACE_LINK:
      snprintf(change.old, sizeof change.old, "%s", bytes);
      snprintf(change.new, sizeof change.new, "%.*s", (int)(head.payload - strlen(bytes) - 1), bytes + strlen(bytes) + 1);
      change.inode = change.old[0] == '\0' ? number : inode_named(&model->visible, change.old);
      if (change.inode < 0) abort();
      change_name(model, change);
      break;
    case TRACE_UNLINK:
      snprintf(change.new, sizeof change.new, "%.*s", (int)head.payload, bytes);
      change_name(model, change);
      break;
    case TRACE_MARK:
      if (ledger != NULL && head.payload == sizeof(struct event)) {
        struct event event;
        memcpy(&event, bytes, sizeof event);
        ledger_apply(ledger, &event);
      }
      break;
    default: abort();
  }
}

/* ------------------------------------------------------------------ images */

const char *image_name(enum image_kind kind) {
  static const char *const names[] = { "synced", "all",           "prefix",       "writes",      "sectors", "blocks",
                                       "garbage", "", "cache-synced", "cache-dirty", "cache-random" };
  return names[kind];
}

/* Writes some pieces of a write. The other pieces keep the old bytes or get random bytes. */
static void put_pieces(struct content *content, const struct change *change, size_t piece, bool noise, struct generator *generator) {
  uint64_t end = change->offset + change->length;
  for (uint64_t start = change->offset; start < end;) {
    uint64_t next = (start / piece + 1) * piece;
    if (next > end) next = end;
    uint32_t choice = random_below(generator, noise ? 4 : 2);
    if (choice == 0 || choice == 3) {
      put(content, start, change->bytes + (start - change->offset), next - start);
    } else if (noise && choice == 1) {
      char garbage[page];
      uint64_t value = random_next(generator);
      bool uniform = random_below(generator, 3) == 0;
      for (size_t index = 0; index < next - start; index++) {
        if (!uniform && index % 8 == 0) value = random_next(generator);
        garbage[index] = (char)(value >> (uniform ? 0 : index % 8 * 8));
      }
      put(content, start, garbage, next - start);
    }
    start = next;
  }
}

static void build(const struct inode *inode, struct content *to, enum image_kind kind, uint64_t until, struct generator *generator) {
  resize(to, 0);
  put(to, 0, inode->durable.bytes, inode->durable.size);
  if (kind == IMAGE_CACHE_SYNCED) return;
  if (kind >= IMAGE_CACHE_DIRTY) {
    write_back(inode, to, kind == IMAGE_CACHE_DIRTY ? choose_all : choose_some, generator);
    return;
  }
  for (size_t index = 0; index < inode->changes_count; index++) {
    const struct change *change = &inode->changes[index];
    bool is_write = change->kind == TRACE_WRITE;
    switch (kind) {
      case IMAGE_ALL: apply_change(to, change); break;
      case IMAGE_PREFIX:
        if (change->order <= until) apply_change(to, change);
        break;
      case IMAGE_SECTORS:
      case IMAGE_BLOCKS:
      case IMAGE_GARBAGE:
        if (is_write) {
          put_pieces(to, change, kind == IMAGE_BLOCKS ? page : sector, kind == IMAGE_GARBAGE, generator);
          break;
        } /* fall through */
      case IMAGE_WRITES:
        if (random_below(generator, 2) == 0) apply_change(to, change);
        break;
      default: break;
    }
  }
}

static uint64_t first_pending(const struct model *model) {
  uint64_t first = model->changes_count > 0 ? model->changes[0].order : model->order;
  for (int index = 0; index < model->visible.count; index++) {
    const struct inode *inode = model->inodes[model->visible.entries[index].inode];
    if (inode->changes_count > 0 && inode->changes[0].order < first) first = inode->changes[0].order;
  }
  return first;
}

void model_image(const struct model *model, enum image_kind kind, struct generator generator, const char *directory) {
  static struct content scratch;
  struct names names = model->durable;
  uint64_t first = first_pending(model);
  uint64_t until = first - 1 + random_below(&generator, (uint32_t)(model->order - first + 2));
  /* A journaling file system keeps the order of names; some cases model one that does not. */
  bool in_order = random_below(&generator, 4) != 0;
  uint64_t names_until =
      model->changes_count == 0 ? 0
                                : model->changes[0].order - 1 +
                                      random_below(&generator, (uint32_t)(model->order - model->changes[0].order + 2));
  for (size_t index = 0; index < model->changes_count; index++) {
    const struct name_change *change = &model->changes[index];
    bool is_in = kind == IMAGE_ALL || kind == IMAGE_CACHE_DIRTY || (kind == IMAGE_PREFIX && change->order <= until);
    if (kind > IMAGE_PREFIX && kind != IMAGE_CACHE_SYNCED && kind != IMAGE_CACHE_DIRTY) {
      is_in = in_order ? change->order <= names_until : random_below(&generator, 2) == 0;
    }
    if (is_in) apply_name(&names, change);
  }
  directory_empty(directory);
  for (int index = 0; index < names.count; index++) {
    build(model->inodes[names.entries[index].inode], &scratch, kind, until, &generator);
    file_write(directory, names.entries[index].name, scratch.bytes, scratch.size);
  }
}
