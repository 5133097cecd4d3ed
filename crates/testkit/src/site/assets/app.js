// Nothing that the page needs in order to be read.
document.documentElement.dataset.ready = 'yes';
