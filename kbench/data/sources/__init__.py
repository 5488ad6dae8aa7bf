"""Where rows come from: files, downloads, bundled tables, generators; read in bounded memory."""
