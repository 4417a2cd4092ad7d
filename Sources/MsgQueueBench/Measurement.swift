import Glibc

/// One contender's results for one workload, one value per round.
struct Figures {
    let contender: String
    let work: Work
    var perSecond: [Double] = []
    var cpuMicroseconds: [Double] = []

    static func median(_ values: [Double]) -> Double {
        let sorted = values.sorted()
        guard let last = sorted.last else { return 0 }
        let middle = sorted.count / 2
        return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + (middle < sorted.count ? sorted[middle] : last)) / 2
    }
}

/// Runs one contender once.
struct Measurement {
    let work: Work
    let seconds: Double
    private let body = [UInt8](repeating: 0x6d, count: Work.bodySize)

    private let threads: Int

    init(work: Work, seconds: Double, threads: Int = Work.threadCount) {
        (self.work, self.seconds, self.threads) = (work, seconds, threads)
    }

    /// Returns messages per second and CPU time per message in microseconds; nil: the contender does not support this workload.
    func run(_ type: any Contender.Type, directory: String) throws -> (perSecond: Double, cpu: Double)? {
        let contender = try type.init(directory: directory)
        var count = 0
        if work == .drain {
            count = max(Int(seconds * Double(Work.drainPerSecond)), 1)
            var left = count
            while left > 0 {
                try contender.put(Array(repeating: body, count: min(left, Work.batchSize)))
                left -= Work.batchSize
            }
        }
        let (began, cpuBegan) = (Self.seconds(CLOCK_MONOTONIC), Self.seconds(CLOCK_PROCESS_CPUTIME_ID))
        let end = began + seconds
        switch work {
        case .single:
            repeat {
                try contender.put(body)
                count += 1
            } while Self.seconds(CLOCK_MONOTONIC) < end
        case .threads: count = try putFromThreads(contender, until: end)
        case .batches:
            let batch = Array(repeating: body, count: Work.batchSize)
            repeat {
                try contender.put(batch)
                count += batch.count
            } while Self.seconds(CLOCK_MONOTONIC) < end
        case .drain:
            guard try contender.drain(count: count) else {
                try contender.close()
                return nil
            }
        }
        let elapsed = Self.seconds(CLOCK_MONOTONIC) - began
        let cpu = Self.seconds(CLOCK_PROCESS_CPUTIME_ID) - cpuBegan
        try contender.close()
        return (Double(count) / elapsed, cpu / Double(count) * 1e6)
    }

    private func putFromThreads(_ contender: any Contender, until end: Double) throws -> Int {
        let lock = Lock()
        nonisolated(unsafe) var total = 0
        let body = body
        nonisolated(unsafe) let shared = contender
        try Threads.run(threads) {
            var own = 0
            repeat {
                try shared.put(body)
                own += 1
            } while Self.seconds(CLOCK_MONOTONIC) < end
            lock.whileHeld { total += own }
        }
        return total
    }

    private static func seconds(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
