/// What concerns the whole queue as JSON, with the names of the structs in the header.
extension JSONValue {
    package init(_ counts: Counts) {
        self = [
            "queued": .integer(counts.queued), "sending": .integer(counts.sending), "sent": .integer(counts.sent),
            "delivered": .integer(counts.delivered), "read": .integer(counts.read), "failed": .integer(counts.failed),
            "received": .integer(counts.received), "unread": .integer(counts.unread), "unsent_bytes": .integer(counts.unsentBytes),
        ]
    }

    package init(_ waiting: Waiting) {
        self = [
            "queued": .integer(waiting.queued), "paused": .integer(waiting.paused), "scheduled": .integer(waiting.scheduled),
            "retrying": .integer(waiting.retrying), "next_scheduled_ms": .integer(waiting.nextScheduledAt),
            "next_retry_ms": .integer(waiting.nextRetryAt),
        ]
    }

    package init(_ statistics: Statistics) {
        self = [
            "opened_ms": .integer(statistics.openedAt), "enqueued": .integer(statistics.enqueued),
            "attempts": .integer(statistics.attempts), "sent": .integer(statistics.sent), "sent_bytes": .integer(statistics.sentBytes),
            "retried": .integer(statistics.retried), "failed": .integer(statistics.failed),
            "discarded": .integer(statistics.discarded), "replaced": .integer(statistics.replaced),
            "sent_per_minute": .integer(statistics.sentPerMinute), "enqueued_per_minute": .integer(statistics.enqueuedPerMinute),
            "failures": .object(
                zip(FailureKind.allCases, statistics.failuresByKind).filter { $0.0 != .none }.map {
                    Member(WireWords.word($0), .integer($1))
                }),
            "file_bytes": .integer(statistics.fileBytes), "free_bytes": .integer(statistics.freeBytes),
            "latency_bounds_ms": .array(Statistics.bounds.map { .integer($0) }),
            "latencies": .array(statistics.latencies.map { .integer($0) }),
            "latency_sum_ms": .integer(statistics.latencySum), "latency_max_ms": .integer(statistics.latencyMax),
            "retryable": .integer(statistics.retryable), "rejected": .integer(statistics.rejected),
            "offline": .integer(statistics.offline), "oldest_queued_ms": .integer(statistics.oldestQueuedAt),
        ]
    }

    package init(_ minute: Minute) {
        self = [
            "start_ms": .integer(minute.startedAt), "enqueued": .integer(minute.enqueued), "sent": .integer(minute.sent),
            "failed_attempts": .integer(minute.failedAttempts), "failed": .integer(minute.failed),
        ]
    }

    package init(_ state: QueueState) {
        self = [
            "connectivity": .string(WireWords.word(state.connectivity)), "link": .string(WireWords.word(state.link)),
            "metered": .bool(state.isMetered), "lifecycle": state.isInBackground ? "background" : "foreground",
            "mode": .string(WireWords.word(state.mode)), "paused": .bool(state.isPaused),
            "paused_conversations": JSONValue(state.pausedConversations), "draining": .bool(state.isDraining),
            "in_flight": JSONValue(state.inFlight), "has_transport": .bool(state.hasTransport),
            "prompt": state.prompt.map { JSONValue($0, expiresAt: state.promptExpiresAt) } ?? .null,
            "storage_trouble": .bool(state.hasStorageTrouble), "storage": .string(state.storage.map { WireWords.word($0) } ?? "OK"),
            "reason": .string(WireWords.word(state.reason)), "until_ms": .integer(state.until), "text": .string(state.text),
            "offline_reason": .string(state.offlineReason), "sqlite_version": .string(state.sqliteVersion),
        ]
    }

    /// `expiresAt`: nil in an event.
    package init(_ prompt: Prompt, expiresAt: Int64? = nil) {
        var members = [
            Member("messages", .integer(prompt.messages)), Member("bytes", .integer(prompt.bytes)),
            Member("oldest_ms", .integer(prompt.oldestAt)), Member("conversations", .integer(prompt.conversations)),
            Member("timeout_ms", .integer(prompt.timeout)), Member("text", .string(Words.prompt(prompt.messages, failed: prompt.failed))),
            Member("failed", .integer(prompt.failed)),
        ]
        if let expiresAt { members.append(Member("expires_ms", .integer(expiresAt))) }
        self = .object(members)
    }

    package init(_ report: Report) {
        self = [
            "stop": .string(WireWords.word(report.stop)), "sent": .integer(report.sent), "failed": .integer(report.failed),
            "discarded": .integer(report.discarded), "remaining": .integer(report.remaining),
            "remaining_failed": .integer(report.remainingFailed), "put_back": .integer(report.putBack),
        ]
    }

    package init(_ report: CheckReport) {
        self = [
            "sound": .bool(report.isSound), "whole": .integer(report.whole), "damaged": .integer(report.damaged),
            "missing": .integer(report.missing), "first_missing": .integer(report.firstMissing ?? 0),
            "last_missing": .integer(report.lastMissing ?? 0), "text": .string(report.text),
        ]
    }

    package init(_ error: QueueError) {
        self = ["code": .string(WireWords.word(error.code)), "text": .string(error.detail)]
    }
}
