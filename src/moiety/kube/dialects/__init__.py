"""What a pod asks for, in whichever spelling it says so.

It owns the spellings (moiety's annotations, nvshare's, KubeShare's, HAMi's, Run:ai's and KAI's,
MetaGPU's), each a pure function from a pod to its requests or a sentence why not, and how several
are joined. It never speaks to a cluster: what it has to know of one is an argument.
"""
