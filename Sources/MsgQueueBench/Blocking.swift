import Glibc

/// Runs an asynchronous operation and blocks this thread until it has ended.
enum Blocking {
    private final class Answer<Value>: @unchecked Sendable {
        var result: Result<Value, any Error>?
        let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

        init() { sem_init(semaphore, 0, 0) }

        deinit {
            sem_destroy(semaphore)
            semaphore.deallocate()
        }
    }

    static func run<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) throws -> Value {
        let answer = Answer<Value>()
        Task {
            do { answer.result = .success(try await body()) } catch { answer.result = .failure(error) }
            sem_post(answer.semaphore)
        }
        while sem_wait(answer.semaphore) != 0 {}
        guard let result = answer.result else { throw Failure("a task ended without a result") }
        return try result.get()
    }
}

/// Threads that run the same loop until each has done its share.
enum Threads {
    private final class Share: @unchecked Sendable {
        let body: () throws -> Void
        var failure: (any Error)?
        init(_ body: @escaping () throws -> Void) { self.body = body }
    }

    static func run(_ count: Int, _ body: @escaping () throws -> Void) throws {
        var threads: [(pthread_t, Share)] = []
        for _ in 0..<count {
            let share = Share(body)
            var thread = pthread_t()
            let start = Unmanaged.passRetained(share)
            let code = pthread_create(
                &thread, nil,
                { argument in
                    guard let argument else { return nil }
                    let share = Unmanaged<Share>.fromOpaque(argument).takeRetainedValue()
                    do { try share.body() } catch { share.failure = error }
                    return nil
                }, start.toOpaque())
            guard code == 0 else {
                start.release()
                throw Failure("failed to create a thread: error \(code)")
            }
            threads.append((thread, share))
        }
        for (thread, _) in threads { pthread_join(thread, nil) }
        for (_, share) in threads { if let failure = share.failure { throw failure } }
    }
}
