/// What the option `maintenance` means: the store stays as its owner left it, except for what is requested.
package enum MaintenanceRule {
    /// Returns the options that take effect. With `maintenance` no limit of the history, no policy of discarding and no default expiry
    /// applies, because those of the owner are not known, and nothing is sent without a request.
    package static func effective(_ given: Options) -> Options {
        guard given.maintenance else { return given }
        var options = given
        options.mode = .manual
        options.direct = false
        (options.keepSent, options.keepSentFor, options.rememberIDs) = (nil, nil, Int64.max)
        options.expiry = 0
        (options.exhausted, options.refused, options.onFull) = (.keep, .keep, .refuse)
        return options
    }

    /// Whether the engine may prune the history, forget ids, fail messages that have expired, and compact the file, without a request.
    package static func changesByItself(_ options: Options) -> Bool { !options.maintenance && !options.readOnly }

    /// Whether `retry` and `retryAll` only put messages back to `queued`. They need neither a transport nor a connection then.
    package static func retriesLater(_ options: Options) -> Bool { options.maintenance }
}
