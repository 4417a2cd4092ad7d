import Glibc

final class Semaphore: @unchecked Sendable {
    private let handle = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    init() { sem_init(handle, 0, 0) }

    deinit {
        sem_destroy(handle)
        handle.deallocate()
    }

    func post() { sem_post(handle) }

    func wait() { while sem_wait(handle) != 0 {} }
}
