/*
 * Damaged stores: bits, pieces, lengths, logs and files that do not belong together. Never a crash, a hang or a wrong body under an id;
 * what is missing or damaged must be told; a store that is refused is left as it is.
 */
#include <dlfcn.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "driver.h"
#include "files.h"
#include "pool.h"
#include "shim.h"
#include "tools.h"

enum { bases_count = 6, sectors_size = 512, page_size = 4096 };

/* A store as some process left it, and what it was told until then. */
struct base {
  const char *text;
  struct snapshot files, early; /* early: the same store at an earlier time */
  struct ledger ledger;
};

struct damage {
  struct base bases[bases_count];
  const char *directory;
  char path[4200];
};

/* ------------------------------------------------------------------ the bases */

struct making {
  enum scene scene;
  unsigned length;
  bool closes;
  const char *directory, *early;
  char path[4200];
  struct journal *journal;
  uint64_t seed;
};

static int make(void *context) {
  struct making *run = context;
  struct driver driver;
  struct snapshot early;
  shim_watch(NULL);
  driver_begin(&driver, run->scene, run->path, run->seed, run->journal, 0);
  scene_play_until(&driver, run->scene, run->length / 2, 0);
  if (driver.queue == NULL) driver_open(&driver);
  for (uint32_t index = 0; index < 20; index++) driver_enqueue(&driver, index % 5, 100 + index * 60);
  driver_drain(&driver, 6);
  snapshot_take(&early, run->directory);
  snapshot_write(&early, run->early);
  for (uint32_t index = 0; index < run->length / 2; index++) {
    driver_enqueue(&driver, index % 5, index % 9 == 0 ? 6000 : 60 + index * 11 % 900);
    if (index % 8 == 0) driver_drain(&driver, 2);
    if (index % 11 == 3) driver_delete(&driver, driver.next - 1);
    if (index % 7 == 2) driver_edit(&driver, driver.next - 1, 200);
  }
  if (run->closes) driver_close(&driver);
  return 0;
}

static bool make_base(struct base *base, const char *text, enum scene scene, unsigned length, bool closes, uint64_t seed) {
  struct making run = { .scene = scene, .length = length, .closes = closes, .seed = seed };
  run.directory = directory_make("damage-base");
  run.early = directory_make("damage-early");
  run.journal = journal_make(100000);
  snprintf(run.path, sizeof run.path, "%s/store.db", run.directory);
  base->text = text;
  bool good = child_run(make, &run, 60) == 0;
  snapshot_take(&base->files, run.directory);
  snapshot_take(&base->early, run.early);
  ledger_begin(&base->ledger, scene_promises(scene));
  journal_replay(run.journal, &base->ledger);
  ledger_without_power_cut(&base->ledger);
  journal_free(run.journal);
  directory_remove(run.directory);
  directory_remove(run.early);
  return good;
}

/* ------------------------------------------------------------------ doing damage */

static struct snapshot_file *pick(struct snapshot *files, struct dice *dice) {
  /* The database more often than what is beside it. */
  struct snapshot_file *file = dice_below(dice, 2) == 0 ? snapshot_find(files, "store.db") : &files->files[dice_below(dice, (uint32_t)files->count)];
  return file != NULL && file->size > 0 ? file : snapshot_find(files, "store.db");
}

static size_t piece_of(struct dice *dice, size_t *unit, size_t size) {
  *unit = dice_below(dice, 2) == 0 ? sectors_size : page_size;
  if (size < *unit) *unit = size;
  return dice_below(dice, (uint32_t)(size / *unit)) * *unit;
}

static void noise(char *bytes, size_t size, struct dice *dice) {
  for (size_t index = 0; index < size; index++) bytes[index] = (char)dice_next(dice);
}

static void resize_file(struct snapshot *files, struct snapshot_file *file, size_t size, struct dice *dice) {
  char *bytes = calloc(1, size + 1), name[NAME_MAX + 1];
  snprintf(name, sizeof name, "%s", file->name);
  memcpy(bytes, file->bytes, size < file->size ? size : file->size);
  if (size > file->size && dice_below(dice, 3) > 0) noise(bytes + file->size, size - file->size, dice);
  snapshot_put(files, name, bytes, size);
  free(bytes);
}

static void foreign_database(const char *directory) {
  char path[4200];
  sqlite3 *handle = NULL;
  snprintf(path, sizeof path, "%s/foreign", directory);
  unlink(path);
  if (sqlite3_open(path, &handle) == SQLITE_OK) {
    sqlite3_exec(handle, "CREATE TABLE message(seq INTEGER PRIMARY KEY, body); INSERT INTO message VALUES(1, 'other')", NULL, NULL, NULL);
  }
  sqlite3_close(handle);
}

/* What is done is said in `text`. */
static void do_damage(struct damage *all, struct snapshot *files, const struct base *base, struct dice *dice, char *text, size_t room) {
  struct snapshot_file *file = pick(files, dice), *other;
  size_t unit, place = piece_of(dice, &unit, file->size), second;
  char saved[page_size];
  const struct base *stranger;
  switch (dice_below(dice, 16)) {
    case 0:
    case 1:
    case 2: {
      uint32_t flips = 1 + dice_below(dice, 3);
      for (uint32_t index = 0; index < flips; index++) {
        place = dice_below(dice, (uint32_t)file->size);
        file->bytes[place] = (char)(file->bytes[place] ^ (1 << dice_below(dice, 8)));
      }
      snprintf(text, room, "%u bits of %s flipped, the last at %zu", flips, file->name, place);
      break;
    }
    case 3:
      memset(file->bytes + place, 0, unit);
      snprintf(text, room, "%zu bytes of %s zeroed at %zu", unit, file->name, place);
      break;
    case 4:
      noise(file->bytes + place, unit, dice);
      snprintf(text, room, "%zu bytes of %s are noise at %zu", unit, file->name, place);
      break;
    case 5:
    case 6:
      second = dice_below(dice, (uint32_t)(file->size / unit)) * unit;
      memcpy(saved, file->bytes + place, unit);
      memcpy(file->bytes + place, file->bytes + second, unit);
      memcpy(file->bytes + second, saved, unit);
      snprintf(text, room, "%zu bytes of %s swapped at %zu and %zu", unit, file->name, place, second);
      break;
    case 7:
      second = dice_below(dice, (uint32_t)(file->size / unit)) * unit;
      memmove(file->bytes + place, file->bytes + second, unit);
      snprintf(text, room, "%zu bytes of %s copied from %zu to %zu", unit, file->name, second, place);
      break;
    case 8:
    case 9: {
      size_t size = dice_below(dice, 2) == 0 ? place : dice_below(dice, (uint32_t)file->size);
      snprintf(text, room, "%s cut from %zu to %zu bytes", file->name, file->size, size);
      resize_file(files, file, size, dice);
      break;
    }
    case 10: {
      size_t more = dice_below(dice, 2) == 0 ? unit : 1 + dice_below(dice, 9000);
      snprintf(text, room, "%zu bytes appended to %s of %zu", more, file->name, file->size);
      resize_file(files, file, file->size + more, dice);
      break;
    }
    case 11: /* one file beside the store is gone */
      other = &files->files[dice_below(dice, (uint32_t)files->count)];
      if (strcmp(other->name, "store.db") == 0) other = snapshot_find(files, "store.db-wal");
      snprintf(text, room, "%s removed", other == NULL ? "nothing" : other->name);
      if (other != NULL) snapshot_drop(files, other->name);
      break;
    case 12: /* the log of another store */
      stranger = &all->bases[dice_below(dice, bases_count)];
      other = snapshot_find((struct snapshot *)&stranger->files, "store.db-wal");
      if (other == NULL) other = snapshot_find((struct snapshot *)&stranger->early, "store.db-wal");
      snprintf(text, room, "the log is that of %s", stranger->text);
      if (other != NULL) snapshot_put(files, "store.db-wal", other->bytes, other->size);
      break;
    case 13: /* one file of an earlier time */
      other = (struct snapshot_file *)&base->early.files[dice_below(dice, (uint32_t)base->early.count)];
      if (files->count == 1 && strcmp(other->name, "store.db") == 0) {
        /* With nothing beside it, an earlier database is a whole store, as one from a backup is. */
        memset(file->bytes + place, 0, unit);
        snprintf(text, room, "%zu bytes of %s zeroed at %zu", unit, file->name, place);
        break;
      }
      snprintf(text, room, "%s is that of an earlier time", other->name);
      snapshot_put(files, other->name, other->bytes, other->size);
      break;
    case 14: { /* another program's */
      static const char words[] = "This is a text and no store.\n";
      struct snapshot foreign;
      uint32_t kind = dice_below(dice, 3);
      snprintf(text, room, "store.db is %s", kind == 0 ? "a text" : kind == 1 ? "empty" : "another database");
      if (kind < 2) snapshot_put(files, "store.db", words, kind == 0 ? sizeof words - 1 : 0);
      else {
        directory_empty(all->directory);
        foreign_database(all->directory);
        snapshot_take(&foreign, all->directory);
        if ((other = snapshot_find(&foreign, "foreign")) != NULL) snapshot_put(files, "store.db", other->bytes, other->size);
        snapshot_free(&foreign);
      }
      break;
    }
    default: { /* something lies beside it that was not there */
      char garbage[2000];
      const char *name = dice_below(dice, 2) == 0 ? "store.db-journal" : "store.db-wal";
      noise(garbage, sizeof garbage, dice);
      snprintf(text, room, "%s is noise", name);
      snapshot_put(files, name, garbage, sizeof garbage);
      break;
    }
  }
}

/* ------------------------------------------------------------------ what is told */

struct told {
  atomic_int storage;
  atomic_int wrong;
  const struct ledger *ledger;
};

static void handle(void *context, const msgq_event *event) {
  struct told *told = context;
  if (event->kind == MSGQ_EVENT_STORAGE && event->result != MSGQ_OK) atomic_fetch_add(&told->storage, 1);
}

/* A body that belongs to the message, in a version that was acknowledged last; older ones are a loss that must be told. */
static bool is_current(const struct message *message, long number, const void *body, size_t size) {
  for (uint8_t index = 0; index < message->versions_count; index++) {
    if (body_is(body, size, (uint32_t)number, message->versions[index])) return true;
  }
  return false;
}

/* A body that the message once had. */
static bool is_earlier(long number, const void *body, size_t size) {
  for (uint32_t version = 0; version < 12; version++) {
    if (body_is(body, size, (uint32_t)number, (struct version){ version, (uint32_t)size })) return true;
  }
  return false;
}

static msgq_verdict transport(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct told *told = context;
  long number = number_of(delivery->id);
  (void)out;
  if (number < 0 || number >= (long)told->ledger->count ||
      (!is_current(&told->ledger->messages[number], number, delivery->body, delivery->body_size) &&
       !is_earlier(number, delivery->body, delivery->body_size))) {
    atomic_fetch_add(&told->wrong, 1);
  }
  return MSGQ_VERDICT_SENT;
}

/* A report as msgq_check gives it, in the library that has it. */
struct check_report {
  uint32_t struct_size;
  uint64_t whole, damaged, missing, first_missing, last_missing;
  char text[512];
};

static bool check_tells(struct damage *all, const struct snapshot *files) {
  msgq_result (*check)(const char *, void *) = NULL;
  *(void **)(&check) = dlsym(RTLD_DEFAULT, "msgq_check");
  if (check == NULL) return false;
#ifdef MSGQ_CHECK_REPORT_INIT
  msgq_check_report report = MSGQ_CHECK_REPORT_INIT;
#else
  struct check_report report;
  memset(&report, 0, sizeof report);
  report.struct_size = sizeof report;
#endif
  snapshot_write(files, all->directory);
  msgq_result result = check(all->path, &report);
  return result != MSGQ_OK || report.damaged > 0 || report.missing > 0;
}

/* ------------------------------------------------------------------ judging */

struct findings {
  long missing, damaged; /* messages; those that the list or msgq_get says are damaged */
  long returned;         /* deleted ones that are back, edits that are gone */
  char first[160];       /* what is missing or back */
  uint64_t total[6];
  bool list_told;
};

static bool look_at(const struct ledger *ledger, const msgq_message *item, struct findings *findings, char *why, size_t room) {
  long number = number_of(item->id);
  const char *text = item->status == MSGQ_STATUS_FAILED && item->failure != NULL ? item->failure->text : "";
  bool is_told = strstr(text, "damage") != NULL || strstr(text, "malformed") != NULL || strstr(text, "corrupt") != NULL;
  if (is_told) {
    findings->damaged++;
    return true;
  }
  if (number < 0 || number >= (long)ledger->count || !ledger->messages[number].is_tried) {
    return snprintf(why, room, "there is a message %.40s that was never enqueued", item->id), false;
  }
  const struct message *message = &ledger->messages[number];
  char conversation[16];
  snprintf(conversation, sizeof conversation, "c%u", message->conversation);
  if (strcmp(conversation, item->conversation) != 0) return snprintf(why, room, "message %s is shown in conversation %.40s", item->id, item->conversation), false;
  if (!is_current(message, number, item->body, item->body_size)) {
    if (!is_earlier(number, item->body, item->body_size)) {
      snprintf(why, room, "message %s (%s) has a wrong body of %zu bytes: %.20s", item->id, item->failure != NULL ? item->failure->text : "", item->body_size,
               (const char *)item->body);
      return false;
    }
    findings->returned++;
    snprintf(findings->first, sizeof findings->first, "%s has an earlier body", item->id);
  }
  if (message->delete_done) {
    findings->returned++;
    snprintf(findings->first, sizeof findings->first, "%s is back, though it was deleted", item->id);
  }
  /* Nothing is said about outcomes: they are not promised to be durable at once, and a lost one is repeated under the same id. */
  return true;
}

static bool read_list(msgq_queue *queue, const struct ledger *ledger, unsigned char *seen, struct findings *findings, char *why, size_t room) {
  msgq_filter filter;
  memset(&filter, 0, sizeof filter);
  filter.struct_size = sizeof filter;
  filter.statuses = MSGQ_STATUSES_ALL;
  filter.limit = 200;
  for (int pages = 0; pages < 100; pages++) {
    msgq_page *list = NULL;
    if (msgq_list(queue, &filter, &list) != MSGQ_OK) {
      findings->list_told = true;
      return true;
    }
    size_t size = msgq_list_size(list);
    bool good = true;
    for (size_t index = 0; index < size && good; index++) {
      const msgq_message *item = msgq_list_at(list, index);
      good = look_at(ledger, item, findings, why, room);
      if (good && (unsigned)item->status < 6) findings->total[item->status]++;
      if (good && number_of(item->id) >= 0) seen[number_of(item->id)] = 1;
    }
    if (size > 0) {
      uint64_t after = msgq_list_at(list, size - 1)->sequence;
      if (good && after <= filter.after) good = !snprintf(why, room, "the pages of the list do not go forward");
      filter.after = after;
    }
    msgq_list_free(list);
    if (!good || size < filter.limit) return good;
  }
  return snprintf(why, room, "the list has no end"), false;
}

static bool read_each(msgq_queue *queue, const struct ledger *ledger, const unsigned char *seen, struct findings *findings, char *why, size_t room) {
  struct findings apart;
  memset(&apart, 0, sizeof apart);
  for (uint32_t number = 0; number < ledger->count; number++) {
    const struct message *message = &ledger->messages[number];
    if (!message->is_done || message->delete_tried) continue;
    char id[32];
    msgq_message *found = NULL;
    id_of(id, number);
    msgq_result result = msgq_get(queue, id, &found);
    bool good = result != MSGQ_OK || look_at(ledger, found, &apart, why, room);
    msgq_message_free(found);
    if (!good) return false;
    if (result == MSGQ_NOT_FOUND || (result == MSGQ_OK && !seen[number] && !findings->list_told)) {
      findings->missing++;
      if (findings->first[0] == '\0') snprintf(findings->first, sizeof findings->first, "%s is %s", id, result == MSGQ_OK ? "not in the list" : "not found");
    }
  }
  return true;
}

static bool counts_differ(msgq_queue *queue, const struct findings *findings) {
  msgq_counts counts;
  memset(&counts, 0, sizeof counts);
  counts.struct_size = sizeof counts;
  if (msgq_count(queue, NULL, &counts) != MSGQ_OK) return false;
  return counts.queued != findings->total[0] || counts.failed != findings->total[5];
}

static bool judge_open(struct damage *all, const struct snapshot *files, const struct base *base, msgq_queue *queue, struct dice *dice, char *why,
                       size_t room) {
  struct told told = { .ledger = &base->ledger };
  struct findings findings;
  static unsigned char seen[messages_room];
  memset(&findings, 0, sizeof findings);
  memset(seen, 0, base->ledger.count + 1);
  msgq_set_event_handler(queue, handle, &told, NULL);
  bool good = read_list(queue, &base->ledger, seen, &findings, why, room) && read_each(queue, &base->ledger, seen, &findings, why, room);
  bool wrong_counts = good && !findings.list_told && findings.damaged == 0 && counts_differ(queue, &findings);
  if (good && dice_below(dice, 4) == 0) {
    msgq_set_transport(queue, transport, &told, NULL);
    msgq_drain_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.timeout_ms = 2000;
    msgq_drain(queue, &options, NULL);
  }
  bool silent = findings.missing > 0 || findings.returned > 0 || wrong_counts;
  for (int waited = 0; waited < 100 && good && silent && !findings.list_told && atomic_load(&told.storage) == 0; waited++) usleep(1000);
  msgq_close(queue, 1000);
  if (good && atomic_load(&told.wrong) > 0) return snprintf(why, room, "the transport was given a wrong body"), false;
  if (!good || !silent || findings.list_told || atomic_load(&told.storage) > 0) return good;
  if (check_tells(all, files)) return true;
  snprintf(why, room, "nothing was told: %ld messages missing, %ld changes undone%s; %s", findings.missing, findings.returned,
           wrong_counts ? ", counts and list differ" : "", findings.first);
  return false;
}

static enum case_result one_case(void *context, long index, char *why, size_t room) {
  struct damage *all = context;
  struct dice dice = dice_of(settings.seed, 500, (uint64_t)index);
  const struct base *base = &all->bases[dice_below(&dice, bases_count)];
  struct snapshot files, after;
  char text[300], difference[200];
  snapshot_copy(&files, &base->files);
  do_damage(all, &files, base, &dice, text, sizeof text);
  snapshot_write(&files, all->directory);
  msgq_options options = check_options(&base->ledger.promises);
  msgq_queue *queue = NULL;
  msgq_result result = msgq_open(all->path, &options, &queue);
  bool good = true;
  if (result == MSGQ_OK) {
    good = judge_open(all, &files, base, queue, &dice, why, room);
  } else {
    snapshot_take(&after, all->directory);
    if (snapshot_differs(&files, &after, difference, sizeof difference)) {
      good = !snprintf(why, room, "open answered %s, and %s", msgq_result_name(result), difference);
    } else if (result == MSGQ_INTERNAL) {
      good = !snprintf(why, room, "open answered %s: %.100s", msgq_result_name(result), msgq_error_detail());
    }
    snapshot_free(&after);
  }
  snapshot_free(&files);
  size_t length = strlen(why);
  if (!good) snprintf(why + length, room - length, " [%s: %s]", base->text, text);
  return good ? CASE_PASSED : CASE_FAILED;
}

static void *begin_worker(void *context) {
  struct damage *all = malloc(sizeof *all);
  *all = *(struct damage *)context;
  all->directory = directory_make("damage");
  snprintf(all->path, sizeof all->path, "%s/store.db", all->directory);
  shim_watch(NULL);
  return all;
}

int tool_damage(void) {
  static struct damage all;
  static const struct {
    const char *text;
    enum scene scene;
    unsigned length;
    bool closes;
  } plans[bases_count] = {
    { "a closed store", SCENE_MIX, 60, true },         { "a crashed store", SCENE_MIX, 60, false },
    { "a closed store of big bodies", SCENE_BODIES, 40, true }, { "a crashed store of big bodies", SCENE_BODIES, 40, false },
    { "a large closed store", SCENE_MIX, 300, true },  { "a large crashed store", SCENE_MIX, 300, false },
  };
  struct tally tally = { 0, 0, 0 };
  for (int index = 0; index < bases_count; index++) {
    if (!make_base(&all.bases[index], plans[index].text, plans[index].scene, plans[index].length, plans[index].closes, settings.seed + (uint64_t)index)) {
      printf("  FAILED damage: %s could not be made\n", plans[index].text);
      tally.failed++;
    }
  }
  long count = settings.images > 0 ? settings.images : settings.full ? 20000 : 400;
  tally_add(&tally, pool_run(settings.full ? "damage --soak" : "damage", count, 20, one_case, begin_worker, &all));
  return tally_end("damage", tally);
}
