/*
 * Writes the files that a power cut may leave, from a trace of the shim of ../faults:
 *
 *     power_cut TRACE KIND SEED DIRECTORY     KIND: a number of enum image_kind
 */
#include <stdio.h>
#include <stdlib.h>

#include "../faults/model.h"

int main(int count, char **arguments) {
  struct trace trace;
  if (count != 5 || !trace_load(&trace, arguments[1]) || trace.count == 0) return 2;
  struct model *model = model_make(0);
  for (size_t index = 0; index < trace.count; index++) model_apply(model, trace_at(&trace, index), NULL);
  model_image(model, (enum image_kind)atoi(arguments[2]), generator_of(strtoull(arguments[3], NULL, 10), 0, 0), arguments[4]);
  printf("%zu records, %s\n", trace.count, image_name((enum image_kind)atoi(arguments[2])));
  model_free(model);
  trace_free(&trace);
  return 0;
}
