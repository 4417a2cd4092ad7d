/// Collects statistics. The time is a parameter.
package struct StatisticsKeeper: Sendable {
    private var statistics = Statistics()
    private var sentLately = LastMinute()
    private var enqueuedLately = LastMinute()
    private var lastHour = LastHour()

    package init(openedAt: Int64) { statistics.openedAt = openedAt }

    package func snapshot(_ now: Moment) -> Statistics {
        var snapshot = statistics
        snapshot.sentPerMinute = sentLately.sum(now.mono)
        snapshot.enqueuedPerMinute = enqueuedLately.sum(now.mono)
        return snapshot
    }

    /// Returns what happened in the last 60 minutes at most, the oldest first. The last one has not ended.
    package func minutes(_ now: Moment) -> [Minute] { lastHour.minutes(now) }

    package mutating func enqueued(_ count: Int64, _ now: Moment) {
        statistics.enqueued += count
        lastHour.change(now.mono) { $0.enqueued += count }
        enqueuedLately.add(count, now.mono)
    }

    package mutating func replaced() { statistics.replaced += 1 }

    package mutating func dropped() {
        statistics.discarded += 1
        statistics.failuresByKind[Int(FailureKind.dropped.rawValue)] += 1
    }

    package mutating func started() { statistics.attempts += 1 }

    /// An attempt was withdrawn before its call.
    package mutating func withdrawn() { statistics.attempts -= 1 }

    private mutating func failed(_ now: Moment) {
        statistics.failed += 1
        lastHour.change(now.mono) { $0.failed += 1 }
    }

    package mutating func expired(_ now: Moment) { failed(now, as: .expired) }

    /// A message was taken over that the queue refuses for good.
    package mutating func refused(_ now: Moment) { failed(now, as: .local) }

    private mutating func failed(_ now: Moment, as kind: FailureKind) {
        failed(now)
        statistics.failuresByKind[Int(kind.rawValue)] += 1
    }

    package mutating func ended(_ resolution: Resolution, createdAt: Int64, bytes: Int64, _ now: Moment) {
        if !resolution.isOffline, resolution.fate != .sent { lastHour.change(now.mono) { $0.failedAttempts += 1 } }
        if let attempt = resolution.attempt { statistics.failuresByKind[Int(attempt.kind.rawValue)] += 1 }
        if resolution.isOffline {
            statistics.offline += 1
        } else if resolution.attempt?.result == .rejected {
            statistics.rejected += 1
        } else if resolution.attempt != nil {
            statistics.retryable += 1
        }
        if resolution.isOffline { statistics.failuresByKind[Int(FailureKind.offline.rawValue)] += resolution.attempt == nil ? 1 : 0 }
        switch resolution.fate {
        case .sent: sent(createdAt: createdAt, bytes: bytes, now)
        case .queued: statistics.retried += resolution.isOffline ? 0 : 1
        case .failed: failed(now)
        case .discarded: statistics.discarded += 1
        case .deleted: break
        }
    }

    package mutating func sent(createdAt: Int64, bytes: Int64, _ now: Moment) {
        // If the wall clock was set back, the latency would be negative.
        let latency = max(now.wall.subtractingClamped(createdAt), 0)
        statistics.sent += 1
        statistics.sentBytes += bytes
        sentLately.add(1, now.mono)
        lastHour.change(now.mono) { $0.sent += 1 }
        let index = Statistics.bounds.firstIndex { latency <= $0 } ?? Statistics.bounds.count
        statistics.latencies[index] += 1
        statistics.latencySum &+= latency
        statistics.latencyMax = max(statistics.latencyMax, latency)
    }

    /// Counts per second of the last 60 seconds.
    private struct LastMinute: Sendable {
        private var counts = [Int64](repeating: 0, count: 60)
        private var second: Int64 = 0

        mutating func add(_ count: Int64, _ mono: Int64) {
            advance(to: mono / 1000)
            counts[Int(second % 60)] += count
        }

        func sum(_ mono: Int64) -> Int64 {
            var copy = self
            copy.advance(to: mono / 1000)
            return copy.counts.reduce(0, +)
        }

        private mutating func advance(to now: Int64) {
            guard now > second else { return }
            for passed in (second + 1)...max(second + 1, min(now, second + 60)) { counts[Int(passed % 60)] = 0 }
            second = now
        }
    }

    /// What happened in each of the last 60 minutes.
    private struct LastHour: Sendable {
        private static let length: Int64 = 60
        private var counts = [Minute](repeating: Minute(), count: Int(length))
        /// The monotonic minute of the last change, and of the first one.
        private var minute: Int64?
        private var first: Int64 = 0

        mutating func change(_ mono: Int64, _ change: (inout Minute) -> Void) {
            let now = max(mono, 0) / 60_000
            if minute == nil { (minute, first) = (now, now) }
            advance(to: now)
            change(&counts[Int((minute ?? now) % Self.length)])
        }

        /// The times are those of the wall clock now, whatever it showed then.
        func minutes(_ now: Moment) -> [Minute] {
            guard minute != nil else { return [] }
            let last = max(now.mono, 0) / 60_000
            var copy = self
            copy.advance(to: last)
            return (max(first, last - Self.length + 1)...max(first, last)).map { number in
                var minute = copy.counts[Int(number % Self.length)]
                minute.startedAt = now.wall.subtractingClamped(now.mono.subtractingClamped(number * 60_000))
                return minute
            }
        }

        private mutating func advance(to now: Int64) {
            guard let last = minute, now > last else { return }
            for passed in (last + 1)...min(now, last + Self.length) { counts[Int(passed % Self.length)] = Minute() }
            minute = now
        }
    }
}
