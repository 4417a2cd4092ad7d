/// What happened in one minute.
package struct Minute: Sendable, Equatable {
    /// Milliseconds since 1970.
    package internal(set) var startedAt: Int64 = 0
    package internal(set) var enqueued: Int64 = 0
    package internal(set) var sent: Int64 = 0
    /// Attempts that failed, without those that ended as offline.
    package internal(set) var failedAttempts: Int64 = 0
    /// Messages that became `failed`.
    package internal(set) var failed: Int64 = 0
}
