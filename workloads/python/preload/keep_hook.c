/* Puts the folder of the step hook at the beginning of PYTHONPATH again where a program has set the variable anew or removed it.
 *
 * A launch names this library in LD_PRELOAD, so that the dynamic linker runs `keep_hook` at the start of each of its programs. In all
 * programs but Python's interpreters it does nothing. It is linked with no library and uses what libc has, if libc is that of GNU: other
 * dynamic linkers do not pass the environment to it. */

#include <stddef.h>
#include <sys/types.h>

#define WEAK __attribute__((weak))

extern WEAK const char *gnu_get_libc_version(void);
extern WEAK ssize_t readlink(const char *path, char *text, size_t length);
extern WEAK int setenv(const char *name, const char *value, int overwrite);

static const char python_path[] = "PYTHONPATH=";
static const char hook_folder[] = "TANDEM_HOOK=";

/* The new variable, which must stay where it is as long as the process. */
static char variable[65536];

static size_t length_of(const char *text) {
  size_t length = 0;
  while (text[length] != 0) length++;
  return length;
}

/* What follows `start` in `text`, or NULL if it begins otherwise. */
static const char *after(const char *text, const char *start) {
  while (*start != 0)
    if (*text++ != *start++) return NULL;
  return text;
}

/* The entry of a variable, or NULL without it. `name` ends with "=". */
static char **entry_of(char **environment, const char *name) {
  for (; *environment != NULL; environment++)
    if (after(*environment, name) != NULL) return environment;
  return NULL;
}

/* Whether this process runs an executable whose name begins as those of CPython and PyPy do. */
static int is_python(void) {
  static char path[4097];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return 0;
  const char *name = path;
  for (const char *next = path; *next != 0; next++)
    if (*next == '/') name = next + 1;
  return after(name, "python") != NULL || after(name, "pypy") != NULL;
}

/* Writes "PYTHONPATH=FOLDER:REST" into `variable`; 0 if it is too long. */
static int join(const char *folder, const char *rest) {
  const char *parts[] = {python_path, folder, *rest != 0 ? ":" : "", rest};
  size_t used = 0;
  for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
    size_t length = length_of(parts[part]);
    if (length >= sizeof variable - used) return 0;
    for (size_t i = 0; i < length; i++) variable[used++] = parts[part][i];
  }
  variable[used] = 0;
  return 1;
}

__attribute__((constructor)) static void keep_hook(int count, char **words, char **environment) {
  (void)count, (void)words;
  if (gnu_get_libc_version == NULL || readlink == NULL || setenv == NULL || environment == NULL) return;
  char **hook = entry_of(environment, hook_folder);
  if (hook == NULL || !is_python()) return;
  const char *folder = *hook + sizeof hook_folder - 1;
  char **path = entry_of(environment, python_path);
  const char *found = path != NULL ? *path + sizeof python_path - 1 : "";
  const char *rest = after(found, folder);
  if (rest != NULL && (*rest == 0 || *rest == ':')) return;
  if (!join(folder, found)) return;
  if (path != NULL)
    *path = variable;
  else
    setenv("PYTHONPATH", folder, 1);
}
