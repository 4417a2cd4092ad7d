extension Metrics {
    /// Returns the metrics of these queues in the Prometheus text format.
    package static func prometheus(of engines: [Engine]) throws(QueueError) -> String {
        guard Set(engines.map(ObjectIdentifier.init)).count == engines.count else {
            throw QueueError(.invalid, "a queue occurs twice")
        }
        var metrics: [Metrics] = []
        for engine in engines { metrics.append(try Metrics(of: engine)) }
        return prometheus(metrics)
    }

    /// The statistics and counts under the store's path.
    private init(of engine: Engine) throws(QueueError) {
        self = try engine.reading { () throws(QueueError) in
            let (statistics, counts) = try engine.reader.statistics()
            return Metrics(name: engine.reader.storePath, statistics: statistics, counts: counts, now: engine.context.ports.moment.wall)
        }
    }
}
