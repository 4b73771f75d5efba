// Mutexes, conditions and read-write locks. Android's are arrays of int: smaller than glibc's on arm64,
// less aligned, and with other values at the start. So glibc's own object lies elsewhere, and Android's
// holds its number, in the second int: no initializer of Android sets that.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum kind { MUTEX, CONDITION, READ_WRITE };

union lock {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  pthread_rwlock_t read_write;
};

enum { MOST_LOCKS = 1 << 20 };

// Number 0 is that of objects that have no lock yet.
static union lock* locks[MOST_LOCKS];
static int free_numbers[MOST_LOCKS];
static int free_count;
static int used_count;
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

// A mutex's type is in these bits of Android's first int.
enum { TYPE_SHIFT = 14, TYPE_MASK = 3 };

static void make_mutex(pthread_mutex_t* mutex, int type) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  // The numbers of types are those of glibc: normal, recursive, checked.
  pthread_mutexattr_settype(&attributes, type);
  pthread_mutex_init(mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

static int new_number(void) {
  if (free_count > 0) return free_numbers[--free_count];
  if (used_count + 1 == MOST_LOCKS) {
    fputs("bionic bench: too many locks.\n", stderr);
    abort();
  }
  return ++used_count;
}

static union lock* lock_of(int* object, enum kind kind) {
  int number = __atomic_load_n(&object[1], __ATOMIC_ACQUIRE);
  if (number == 0) {
    pthread_mutex_lock(&table);
    number = object[1];
    if (number == 0) {
      union lock* lock = calloc(1, sizeof *lock);
      if (lock == NULL) abort();
      if (kind == MUTEX) make_mutex(&lock->mutex, (object[0] >> TYPE_SHIFT) & TYPE_MASK);
      if (kind == CONDITION) pthread_cond_init(&lock->condition, NULL);
      if (kind == READ_WRITE) pthread_rwlock_init(&lock->read_write, NULL);
      number = new_number();
      locks[number] = lock;
      __atomic_store_n(&object[1], number, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&table);
  }
  return locks[number];
}

static int destroy(int* object) {
  pthread_mutex_lock(&table);
  int number = object[1];
  if (number != 0) {
    free(locks[number]);
    free_numbers[free_count++] = number;
    object[1] = 0;
  }
  pthread_mutex_unlock(&table);
  return 0;
}

int bionic_pthread_mutexattr_init(long* attributes) {
  *attributes = 0;
  return 0;
}
int bionic_pthread_mutexattr_destroy(long* attributes) {
  *attributes = -1;
  return 0;
}
int bionic_pthread_mutexattr_settype(long* attributes, int type) {
  *attributes = type;
  return 0;
}

int bionic_pthread_mutex_init(int* mutex, const long* attributes) {
  mutex[0] = attributes != NULL ? (int)(*attributes & TYPE_MASK) << TYPE_SHIFT : 0;
  mutex[1] = 0;
  return 0;
}
int bionic_pthread_mutex_lock(int* mutex) { return pthread_mutex_lock(&lock_of(mutex, MUTEX)->mutex); }
int bionic_pthread_mutex_trylock(int* mutex) {
  return pthread_mutex_trylock(&lock_of(mutex, MUTEX)->mutex);
}
int bionic_pthread_mutex_unlock(int* mutex) {
  return pthread_mutex_unlock(&lock_of(mutex, MUTEX)->mutex);
}
int bionic_pthread_mutex_destroy(int* mutex) { return destroy(mutex); }

int bionic_pthread_cond_wait(int* condition, int* mutex) {
  return pthread_cond_wait(&lock_of(condition, CONDITION)->condition, &lock_of(mutex, MUTEX)->mutex);
}
int bionic_pthread_cond_timedwait(int* condition, int* mutex, const struct timespec* until) {
  return pthread_cond_timedwait(&lock_of(condition, CONDITION)->condition,
                                &lock_of(mutex, MUTEX)->mutex, until);
}
int bionic_pthread_cond_signal(int* condition) {
  return pthread_cond_signal(&lock_of(condition, CONDITION)->condition);
}
int bionic_pthread_cond_broadcast(int* condition) {
  return pthread_cond_broadcast(&lock_of(condition, CONDITION)->condition);
}
int bionic_pthread_cond_destroy(int* condition) { return destroy(condition); }

int bionic_pthread_rwlock_rdlock(int* lock) {
  return pthread_rwlock_rdlock(&lock_of(lock, READ_WRITE)->read_write);
}
int bionic_pthread_rwlock_wrlock(int* lock) {
  return pthread_rwlock_wrlock(&lock_of(lock, READ_WRITE)->read_write);
}
int bionic_pthread_rwlock_unlock(int* lock) {
  return pthread_rwlock_unlock(&lock_of(lock, READ_WRITE)->read_write);
}
