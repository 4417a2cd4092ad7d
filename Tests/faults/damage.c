/*
 * Damaged stores: changed bits, sectors, pages and lengths, and files of different stores or times. Never a crash, a hang or a wrong body;
 * missing and damaged messages must be reported; a refused store is not changed.
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

enum { bases_count = 8, sectors_size = 512, page_size = 4096 };

/* A store after the end of its process, and the ledger of its calls. */
struct base {
  const char *text;
  struct snapshot files, early; /* `early`: the same store at an earlier time */
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

/* Notes what was replaced, dropped or pruned as deleted. */
static void note_gone(struct driver *driver) {
  for (uint32_t number = 0; number < driver->next; number++) {
    char id[32];
    msgq_message *found = NULL;
    id_of(id, number);
    if (msgq_get(driver->queue, id, &found) == MSGQ_NOT_FOUND) {
      driver_note(driver, (struct event){ .kind = EVENT_DELETE, .number = number });
      driver_note(driver, (struct event){ .kind = EVENT_DELETED, .number = number });
    }
    msgq_message_free(found);
  }
}

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
  if (scene_promises(run->scene).is_limited) note_gone(&driver);
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

/* ------------------------------------------------------------------ damage */

static struct snapshot_file *pick(struct snapshot *files, struct generator *generator) {
  /* The database is picked more often than the other files. */
  bool is_database = random_below(generator, 2) == 0;
  struct snapshot_file *file = is_database ? snapshot_find(files, "store.db") : &files->files[random_below(generator, (uint32_t)files->count)];
  return file != NULL && file->size > 0 ? file : snapshot_find(files, "store.db");
}

static size_t piece_of(struct generator *generator, size_t *unit, size_t size) {
  *unit = random_below(generator, 2) == 0 ? sectors_size : page_size;
  if (size < *unit) *unit = size;
  return random_below(generator, (uint32_t)(size / *unit)) * *unit;
}

static void noise(char *bytes, size_t size, struct generator *generator) {
  for (size_t index = 0; index < size; index++) bytes[index] = (char)random_next(generator);
}

static void resize_file(struct snapshot *files, struct snapshot_file *file, size_t size, struct generator *generator) {
  char *bytes = calloc(1, size + 1), name[NAME_MAX + 1];
  snprintf(name, sizeof name, "%s", file->name);
  memcpy(bytes, file->bytes, size < file->size ? size : file->size);
  if (size > file->size && random_below(generator, 3) > 0) noise(bytes + file->size, size - file->size, generator);
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

/* Damages the files and describes the damage in `text`. */
static void do_damage(struct damage *all, struct snapshot *files, const struct base *base, struct generator *generator, char *text, size_t room) {
  struct snapshot_file *file = pick(files, generator), *other;
  size_t unit, place = piece_of(generator, &unit, file->size), second;
  char saved[page_size];
  const struct base *other_base;
  switch (random_below(generator, 16)) {
    case 0:
    case 1:
    case 2: {
      uint32_t flips = 1 + random_below(generator, 3);
      for (uint32_t index = 0; index < flips; index++) {
        place = random_below(generator, (uint32_t)file->size);
        file->bytes[place] = (char)(file->bytes[place] ^ (1 << random_below(generator, 8)));
      }
      snprintf(text, room, "%u bits of %s flipped, the last one at %zu", flips, file->name, place);
      break;
    }
    case 3:
      memset(file->bytes + place, 0, unit);
      snprintf(text, room, "%zu bytes of %s zeroed at %zu", unit, file->name, place);
      break;
    case 4:
      noise(file->bytes + place, unit, generator);
      snprintf(text, room, "%zu bytes of %s random at %zu", unit, file->name, place);
      break;
    case 5:
    case 6:
      second = random_below(generator, (uint32_t)(file->size / unit)) * unit;
      memcpy(saved, file->bytes + place, unit);
      memcpy(file->bytes + place, file->bytes + second, unit);
      memcpy(file->bytes + second, saved, unit);
      snprintf(text, room, "%zu bytes of %s swapped at %zu and %zu", unit, file->name, place, second);
      break;
    case 7:
      second = random_below(generator, (uint32_t)(file->size / unit)) * unit;
      memmove(file->bytes + place, file->bytes + second, unit);
      snprintf(text, room, "%zu bytes of %s copied from %zu to %zu", unit, file->name, second, place);
      break;
    case 8:
    case 9: {
      size_t size = random_below(generator, 2) == 0 ? place : random_below(generator, (uint32_t)file->size);
      snprintf(text, room, "%s truncated from %zu to %zu bytes", file->name, file->size, size);
      resize_file(files, file, size, generator);
      break;
    }
    case 10: {
      size_t more = random_below(generator, 2) == 0 ? unit : 1 + random_below(generator, 9000);
      snprintf(text, room, "%zu bytes appended to %s of %zu bytes", more, file->name, file->size);
      resize_file(files, file, file->size + more, generator);
      break;
    }
    case 11: /* remove a file beside the database */
      other = &files->files[random_below(generator, (uint32_t)files->count)];
      if (strcmp(other->name, "store.db") == 0) other = snapshot_find(files, "store.db-wal");
      snprintf(text, room, "%s removed", other == NULL ? "nothing" : other->name);
      if (other != NULL) snapshot_drop(files, other->name);
      break;
    case 12: /* replace the log by that of another store */
      other_base = &all->bases[random_below(generator, bases_count)];
      other = snapshot_find((struct snapshot *)&other_base->files, "store.db-wal");
      if (other == NULL) other = snapshot_find((struct snapshot *)&other_base->early, "store.db-wal");
      snprintf(text, room, "the log is that of %s", other_base->text);
      if (other != NULL) snapshot_put(files, "store.db-wal", other->bytes, other->size);
      break;
    case 13: /* replace a file by that of an earlier time */
      other = (struct snapshot_file *)&base->early.files[random_below(generator, (uint32_t)base->early.count)];
      if (files->count == 1 && strcmp(other->name, "store.db") == 0) {
        /* An earlier database without other files is a valid store, like a backup. */
        memset(file->bytes + place, 0, unit);
        snprintf(text, room, "%zu bytes of %s zeroed at %zu", unit, file->name, place);
        break;
      }
      snprintf(text, room, "%s is from an earlier time", other->name);
      snapshot_put(files, other->name, other->bytes, other->size);
      break;
    case 14: { /* replace the database by a file of another program */
      static const char words[] = "This text is not a store.\n";
      struct snapshot foreign;
      uint32_t kind = random_below(generator, 3);
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
    default: { /* add or replace a journal or log with random bytes */
      char garbage[2000];
      const char *name = random_below(generator, 2) == 0 ? "store.db-journal" : "store.db-wal";
      noise(garbage, sizeof garbage, generator);
      snprintf(text, room, "%s has random bytes", name);
      snapshot_put(files, name, garbage, sizeof garbage);
      break;
    }
  }
}

/* ------------------------------------------------------------------ reports of the library */

struct reports {
  atomic_int storage;
  atomic_int wrong;
  const struct ledger *ledger;
};

static void handle(void *context, const msgq_event *event) {
  struct reports *reports = context;
  if (event->kind == MSGQ_EVENT_STORAGE && event->result != MSGQ_OK) atomic_fetch_add(&reports->storage, 1);
}

/* Returns whether the body is an allowed version of the message. An older version is a loss that must be reported. */
static bool is_current(const struct message *message, long number, const void *body, size_t size) {
  for (uint8_t index = 0; index < message->versions_count; index++) {
    if (body_is(body, size, (uint32_t)number, message->versions[index])) return true;
  }
  return false;
}

/* Returns whether the message once had this body. */
static bool is_earlier(long number, const void *body, size_t size) {
  for (uint32_t version = 0; version < 12; version++) {
    if (body_is(body, size, (uint32_t)number, (struct version){ version, (uint32_t)size })) return true;
  }
  return false;
}

static msgq_verdict transport(void *context, const msgq_delivery *delivery, msgq_outcome *out) {
  struct reports *reports = context;
  long number = number_of(delivery->id);
  (void)out;
  if (number < 0 || number >= (long)reports->ledger->count ||
      (!is_current(&reports->ledger->messages[number], number, delivery->body, delivery->body_size) &&
       !is_earlier(number, delivery->body, delivery->body_size))) {
    atomic_fetch_add(&reports->wrong, 1);
  }
  return MSGQ_VERDICT_SENT;
}

/* The report of msgq_check, for headers that do not declare it. */
struct check_report {
  uint32_t struct_size;
  uint64_t whole, damaged, missing, first_missing, last_missing;
  char text[512];
};

static bool check_reports_damage(struct damage *all, const struct snapshot *files) {
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

/* ------------------------------------------------------------------ checks */

struct findings {
  long missing, damaged; /* messages; `damaged`: reported as damaged by msgq_list or msgq_get */
  long returned;         /* deleted messages that reappeared, and lost edits */
  char first[160];       /* description of a missing or returned message */
  uint64_t total[6];
  bool list_failed;
};

static bool check_item(const struct ledger *ledger, const msgq_message *item, struct findings *findings, char *why, size_t room) {
  long number = number_of(item->id);
  const char *text = item->status == MSGQ_STATUS_FAILED && item->failure != NULL ? item->failure->text : "";
  bool is_reported = strstr(text, "damage") != NULL || strstr(text, "malformed") != NULL || strstr(text, "corrupt") != NULL;
  if (is_reported) {
    findings->damaged++;
    return true;
  }
  if (number < 0 || number >= (long)ledger->count || !ledger->messages[number].is_tried) {
    return snprintf(why, room, "message %.40s was never enqueued", item->id), false;
  }
  const struct message *message = &ledger->messages[number];
  char conversation[16];
  snprintf(conversation, sizeof conversation, "c%u", message->conversation);
  if (strcmp(conversation, item->conversation) != 0) return snprintf(why, room, "message %s is in conversation %.40s", item->id, item->conversation), false;
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
    snprintf(findings->first, sizeof findings->first, "%s exists although it was deleted", item->id);
  }
  /* Outcomes are not checked: they need not be durable at once, and after a lost outcome the message is sent again with the same id. */
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
      findings->list_failed = true;
      return true;
    }
    size_t size = msgq_list_size(list);
    bool good = true;
    for (size_t index = 0; index < size && good; index++) {
      const msgq_message *item = msgq_list_at(list, index);
      good = check_item(ledger, item, findings, why, room);
      if (good && (unsigned)item->status < 6) findings->total[item->status]++;
      if (good && number_of(item->id) >= 0) seen[number_of(item->id)] = 1;
    }
    if (size > 0) {
      uint64_t after = msgq_list_at(list, size - 1)->sequence;
      if (good && after <= filter.after) good = !snprintf(why, room, "the pages of the list do not advance");
      filter.after = after;
    }
    msgq_list_free(list);
    if (!good || size < filter.limit) return good;
  }
  return snprintf(why, room, "the list has no end"), false;
}

static bool check_each(msgq_queue *queue, const struct ledger *ledger, const unsigned char *seen, struct findings *findings, char *why, size_t room) {
  struct findings apart;
  memset(&apart, 0, sizeof apart);
  for (uint32_t number = 0; number < ledger->count; number++) {
    const struct message *message = &ledger->messages[number];
    if (!message->is_done || message->delete_tried) continue;
    /* Messages of the history may have been pruned since the ledger was written. */
    if (ledger->promises.prunes && (message->was_sent || message->is_received)) continue;
    char id[32];
    msgq_message *found = NULL;
    id_of(id, number);
    msgq_result result = msgq_get(queue, id, &found);
    bool good = result != MSGQ_OK || check_item(ledger, found, &apart, why, room);
    msgq_message_free(found);
    if (!good) return false;
    if (result == MSGQ_NOT_FOUND || (result == MSGQ_OK && !seen[number] && !findings->list_failed)) {
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

static bool judge_open(struct damage *all, const struct snapshot *files, const struct base *base, msgq_queue *queue, struct generator *generator, char *why,
                       size_t room) {
  struct reports reports = { .ledger = &base->ledger };
  struct findings findings;
  static unsigned char seen[messages_room];
  memset(&findings, 0, sizeof findings);
  memset(seen, 0, base->ledger.count + 1);
  msgq_set_event_handler(queue, handle, &reports, NULL);
  bool good = read_list(queue, &base->ledger, seen, &findings, why, room) && check_each(queue, &base->ledger, seen, &findings, why, room);
  bool wrong_counts = good && !findings.list_failed && findings.damaged == 0 && counts_differ(queue, &findings);
  if (good && random_below(generator, 4) == 0) {
    msgq_set_transport(queue, transport, &reports, NULL);
    msgq_drain_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.timeout_ms = 2000;
    msgq_drain(queue, &options, NULL);
  }
  bool silent = findings.missing > 0 || findings.returned > 0 || wrong_counts;
  for (int waited = 0; waited < 100 && good && silent && !findings.list_failed && atomic_load(&reports.storage) == 0; waited++) usleep(1000);
  msgq_close(queue, 1000);
  if (good && atomic_load(&reports.wrong) > 0) return snprintf(why, room, "the transport got a wrong body"), false;
  if (!good || !silent || findings.list_failed || atomic_load(&reports.storage) > 0) return good;
  if (check_reports_damage(all, files)) return true;
  snprintf(why, room, "nothing was reported: %ld messages missing, %ld changes undone%s; %s", findings.missing, findings.returned,
           wrong_counts ? ", counts and list differ" : "", findings.first);
  return false;
}

static enum case_result one_case(void *context, long index, char *why, size_t room) {
  struct damage *all = context;
  struct generator generator = generator_of(settings.seed, 500, (uint64_t)index);
  const struct base *base = &all->bases[random_below(&generator, bases_count)];
  struct snapshot files, after;
  char text[300], difference[200];
  snapshot_copy(&files, &base->files);
  do_damage(all, &files, base, &generator, text, sizeof text);
  snapshot_write(&files, all->directory);
  msgq_options options = check_options(&base->ledger.promises);
  msgq_queue *queue = NULL;
  msgq_result result = msgq_open(all->path, &options, &queue);
  bool good = true;
  if (result == MSGQ_OK) {
    good = judge_open(all, &files, base, queue, &generator, why, room);
  } else {
    snapshot_take(&after, all->directory);
    if (snapshot_differs(&files, &after, difference, sizeof difference)) {
      good = !snprintf(why, room, "open returned %s (%.150s), and %s", msgq_result_name(result), msgq_error_detail(), difference);
    } else if (result == MSGQ_INTERNAL) {
      good = !snprintf(why, room, "open returned %s: %.100s", msgq_result_name(result), msgq_error_detail());
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
    { "a closed store of large bodies", SCENE_BODIES, 40, true }, { "a crashed store of large bodies", SCENE_BODIES, 40, false },
    { "a large closed store", SCENE_MIX, 300, true },  { "a large crashed store", SCENE_MIX, 300, false },
    { "a closed store of all calls", SCENE_CALLS, 100, true }, { "a crashed store with limits", SCENE_LIMITS, 100, false },
  };
  struct tally tally = { 0, 0, 0 };
  for (int index = 0; index < bases_count; index++) {
    if (!make_base(&all.bases[index], plans[index].text, plans[index].scene, plans[index].length, plans[index].closes, settings.seed + (uint64_t)index)) {
      printf("  FAILED damage: %s could not be created\n", plans[index].text);
      tally.failed++;
    }
  }
  long count = settings.images > 0 ? settings.images : settings.full ? 20000 : 400;
  tally_add(&tally, pool_run(settings.full ? "damage --soak" : "damage", count, 20, one_case, begin_worker, &all));
  return tally_end("damage", tally);
}
