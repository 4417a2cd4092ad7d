/// How many queued messages wait for what. Each is counted once.
package struct Waiting: Sendable, Equatable {
    /// All, without those being sent.
    package var queued: Int64 = 0
    /// In conversations that are paused; all, while the queue is.
    package var paused: Int64 = 0
    /// Of the others: before their `notBefore`.
    package var scheduled: Int64 = 0
    /// Of the others: in the delay after a failed attempt.
    package var retrying: Int64 = 0
    /// When the first of the scheduled and of the retrying ones is due, in milliseconds since 1970; 0: there is none.
    package var nextScheduledAt: Int64 = 0
    package var nextRetryAt: Int64 = 0
}
